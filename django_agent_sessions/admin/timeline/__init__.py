"""Branches, snapshots, forks and rewinds in the admin."""
