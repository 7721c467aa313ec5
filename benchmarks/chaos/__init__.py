"""Chaos: real writers on a real database that is broken on purpose, and a check of what is left.

``python -m benchmarks.chaos --database sqlite --minutes 10 --seed 7`` starts writers that run
agents and use the store, kills them, and breaks the server, the network, the disk, the clock and
the storage of binaries under them. Each writer keeps a journal of what it tried and what it was
answered; at the end ``checking`` compares all journals with what is in the database.
"""
