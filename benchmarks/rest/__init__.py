"""The session list of somebody with 100,000 sessions: ``python -m benchmarks.rest``."""
