"""History that may leave the machine: of which repositories, how much, and without what."""
