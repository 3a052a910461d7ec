"""PostgreSQL behind the store: any number of processes on one database.

All transactions that write begin by locking the row ``log_head``. So they follow each other, as on SQLite: log entries
come in the order of commits without gaps, and replicas cannot deadlock however works are put together. What a session
may take is limited, so that a replica that stands still does not keep the others from writing for long.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hostler.control.store.limits import Limits
from hostler.control.store.listener import CHANNEL, PostgresNotifier
from hostler.control.store.postgres_refusals import why_unopened
from hostler.errors import HostlerError, InputError

__all__ = ["SCHEMA_LOCK", "PostgresBackend"]

SCHEMA_LOCK = 0x686F73746C6572  # "hostler": any number that nobody else uses
# Statements go by keys: a plan that was made when a table was small must not read all of it for ever. They are short:
# compiling one costs many times what it takes.
_PLANS = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}
# Limits that a role may have, of those that its server knows: one on transactions would cut off every long backup.
_UNLIMITED = (
    b"SELECT set_config(name, '0', false) FROM pg_settings "
    b"WHERE name IN ('idle_session_timeout', 'transaction_timeout')"
)
_ENCODING = "UTF8"
# Answers that may come when COMMIT was carried out already, or when the server no longer knows.
_UNCERTAIN = ("08", "57P", "XX", "40003", "F0")


class PostgresBackend:
    """A database that others use too."""

    def __init__(self, url: URL, limits: Limits) -> None:
        self._location = location = url.set(drivername="postgresql+psycopg")
        self.name = location.set(drivername="postgresql").render_as_string(hide_password=True)
        options: dict[str, Any] = {"hide_parameters": True, "connect_args": _connect_arguments(limits)}
        self.writing = _engine(location, limits, {**options, "poolclass": NullPool})
        pool = {
            "poolclass": QueuePool,
            "pool_size": limits.readers,
            "max_overflow": limits.readers,
        }
        self.reading = _engine(location, limits, {**options, **pool}).execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        self.notifier = PostgresNotifier(location, limits)

    def place(self, connection: Connection) -> str:
        """Return the database's name alone: the server changes when a standby takes over."""
        return f"postgresql:{connection.exec_driver_sql('SELECT current_database()').scalar_one()}"

    def why_unopened(self, error: SQLAlchemyError) -> HostlerError | None:
        """Say why the server cannot be reached or lets nobody in."""
        return why_unopened(error, self._location)

    def lock_schema(self, connection: Connection) -> None:
        """Wait until no other replica migrates; the server gives the lock back with the transaction."""
        connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")

    def announce(self, connection: Connection) -> None:
        """Send a notice, which the server delivers when the transaction commits."""
        connection.exec_driver_sql(f"NOTIFY {CHANNEL}")

    def can_commit(self, connection: Connection) -> bool:
        """Say no in a failed transaction: the server answers such a COMMIT by rolling back, without an error."""
        raw = connection.connection.driver_connection
        return isinstance(raw, psycopg.Connection) and raw.info.transaction_status == TransactionStatus.INTRANS

    def after_commit(self, connection: Connection) -> None:
        """Do nothing: the server looks after its own files."""

    def is_refusal(self, error: BaseException) -> bool:
        """Say whether the server itself answered, on a connection that goes on."""
        if (
            not isinstance(error, DBAPIError)
            or error.connection_invalidated
            or not isinstance(error.orig, psycopg.Error)
        ):
            return False
        state = error.orig.sqlstate
        return bool(state) and not str(state).startswith(_UNCERTAIN)

    def is_standby(self, connection: Connection) -> bool:
        """Say whether the server replays what another one wrote."""
        return bool(connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one())

    def why_gone(self) -> str:
        """Say nothing: a server that lost commits is found by its log."""
        return ""

    def close(self) -> None:
        """Close all connections."""
        self.notifier.close()
        self.reading.dispose()
        self.writing.dispose()


def _connect_arguments(limits: Limits) -> dict[str, Any]:
    """Return what makes a dead server known: without it, TCP waits for many minutes."""
    return {
        "connect_timeout": max(2, round(limits.connect_s)),
        "application_name": "hostler",
        "client_encoding": _ENCODING,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }


def _engine(url: URL, limits: Limits, options: dict[str, Any]) -> Engine:
    """Return an engine whose sessions are limited, and whose COMMITs wait for the disk whatever the server says."""
    engine = create_engine(url, **options)
    seconds = {
        "statement_timeout": limits.statement_s,
        "lock_timeout": limits.lock_s,
        "idle_in_transaction_session_timeout": limits.idle_in_transaction_s,
    }
    settings = {name: str(int(value * 1000)) for name, value in seconds.items()} | _PLANS

    @event.listens_for(engine, "connect")
    def _prepare(raw: psycopg.Connection[Any], _record: object) -> None:
        _check_encoding(raw)
        # Whatever is the default of a role or a database: who waits for the row that all lock must see what others
        # wrote meanwhile.
        raw.isolation_level, raw.read_only = psycopg.IsolationLevel.READ_COMMITTED, False
        raw.autocommit = True
        for name, value in settings.items():
            raw.execute(f"SET {name} = {value}".encode())
        raw.execute(_UNLIMITED)
        raw.execute(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        raw.autocommit = False

    return engine


def _check_encoding(raw: psycopg.Connection[Any]) -> None:
    """Refuse a database that cannot keep every letter, before a name has one of those."""
    found = raw.info.parameter_status("server_encoding")
    if found != _ENCODING:
        hint = f"make one that can: createdb --encoding {_ENCODING} --template template0 NAME"
        raise InputError(f"the database {raw.info.dbname} keeps texts as {found}, not as {_ENCODING}", hint=hint)
