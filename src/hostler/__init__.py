"""Hostler decides where guests run on hosts. See ``docs/quickstart.md`` for the public API."""
