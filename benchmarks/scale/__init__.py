"""The admin at a hundred times the data: ``python -m benchmarks.scale``."""
