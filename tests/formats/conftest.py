"""Fixtures of these tests: a PostgreSQL server of their own."""

from tests.control.postgres import postgres

__all__ = ["postgres"]
