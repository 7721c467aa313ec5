"""Writers on every node of a cluster whose nodes are killed, cut off and stopped meanwhile."""
