"""A check-up of this machine: what is found, how it is mended, and a bundle without content for a bug report."""
