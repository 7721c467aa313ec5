"""The page of a session: its conversation, in windows of messages."""
