"""Agents in the servers and queues that Django projects use; what was acknowledged is counted."""
