"""Everything that lasts, in SQLite or PostgreSQL. Only here are SQLAlchemy, alembic and psycopg imported.

``open_database(url)`` gives a :class:`Database`; ``await db.write(work)`` runs ``work(connection)`` in a transaction
that it shares with other works (one COMMIT for all), ``await db.read(work)`` runs it on a snapshot. ``log``, ``lease``,
``vms``, ``hosts``, ``placements``, ``keys``, ``projects``, ``operations``, ``idempotency`` and ``documents`` are plain
functions over such a connection; nobody outside looks at tables.
"""

from sqlalchemy import Connection

from hostler.control.store.database import Database, open_database
from hostler.control.store.errors import OutcomeUnknownError
from hostler.control.store.limits import Limits
from hostler.control.store.notifier import Notifier

__all__ = ["Connection", "Database", "Limits", "Notifier", "OutcomeUnknownError", "open_database"]
