"""The demonstration: each step is run by a process of its own, on one fresh database."""
