"""The commands of ``manage.py``."""
