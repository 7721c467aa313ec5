"""Ten million messages beside ten thousand: ``python -m benchmarks.scale.growth``."""
