"""What requests may hold, and what answers look like."""
