"""Databases of released versions, upgraded by this version's migrations."""
