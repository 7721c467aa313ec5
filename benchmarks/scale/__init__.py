"""Many messages beside few: ``benchmarks.scale`` and ``benchmarks.scale.growth``."""
