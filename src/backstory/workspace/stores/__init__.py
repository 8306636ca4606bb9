"""Changes of whole stores: imports, merges, removals, moves, and the home store kept up to date."""
