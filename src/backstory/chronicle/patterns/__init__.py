"""Patterns in how a person works with agents: one a module, each a pure function from habits to findings."""
