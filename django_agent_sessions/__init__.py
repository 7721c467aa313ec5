"""Durable, browsable, redactable AI agent sessions in a Django project's own database."""

__version__ = "0.1.0"
