"""Migrations of a large database of the first schema, and back: ``benchmarks.upgrades``."""
