"""Redaction in the admin: a form, a preview and a confirmation with a reason."""
