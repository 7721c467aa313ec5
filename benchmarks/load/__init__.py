"""Two hundred agents at once through the example's server: ``python -m benchmarks.load``."""
