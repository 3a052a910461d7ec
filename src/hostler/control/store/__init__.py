"""All persistent data, in SQLite or PostgreSQL. Only this package imports SQLAlchemy, alembic and psycopg.

``open_database(url)`` returns a :class:`Database`. ``await db.write(work)`` runs ``work(connection)`` in a transaction
that it shares with other works (one COMMIT for all). ``await db.read(work)`` runs it on a snapshot. The modules of
``rows`` (VMs, hosts, keys and others, by table) and of ``history`` (log, lease) are plain functions over such a
connection. No other package sees tables.

Layers: ``backup`` above ``database``, ``writes``, ``history``, ``rows``, ``schema``, ``backends`` and ``tables``.
"""

from sqlalchemy import Connection

from hostler.control.store.backends.backend import DatabaseLimits, Notifier
from hostler.control.store.database import Database, open_database
from hostler.control.store.errors import OutcomeUnknownError

__all__ = ["Connection", "Database", "DatabaseLimits", "Notifier", "OutcomeUnknownError", "open_database"]
