"""Pages: history in the browser of the person who started it, and of nobody else."""
