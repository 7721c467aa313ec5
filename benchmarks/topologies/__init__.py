"""Arrangements of several servers, as sites run them: a pooler, a replica, a cluster.

``python -m benchmarks.topologies NAME COMMAND…`` starts one on loopback, runs a command in it, and
takes it down again.
"""
