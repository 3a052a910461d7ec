"""The PostgreSQL backend: any number of processes on one database.

Every transaction that writes first locks the row ``log_head``. So writers follow each other, as on SQLite: log entries
have commit order without gaps, and replicas cannot deadlock. Session limits keep a stalled replica from blocking the
others for long.

``PostgresNotifier`` listens on a connection of its own and reopens it when it breaks. It receives notices of other
replicas; this process's own notices come from its writer. ``why_unopened`` explains why a server cannot be reached.
Before there is a connection, libpq gives only a sentence and no code. The common sentences are recognized by their
words, and others are passed on. None contains a password.
"""

from __future__ import annotations

import re
import shlex
import threading
from typing import Any

import msgspec
import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hostler.control.store.backends.backend import DatabaseLimits, Notifier
from hostler.control.store.errors import DatabaseUnavailableError, cause_of
from hostler.errors import HostlerError, InputError

__all__ = ["CHANNEL", "SCHEMA_LOCK", "PostgresBackend", "PostgresNotifier", "why_unopened"]

SCHEMA_LOCK = 0x686F73746C6572  # "hostler": any otherwise unused number
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
    """A database that other processes use too."""

    def __init__(self, url: URL, limits: DatabaseLimits) -> None:
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
        """Return only the database's name: the server changes when a standby takes over."""
        return f"postgresql:{connection.exec_driver_sql('SELECT current_database()').scalar_one()}"

    def why_unopened(self, error: SQLAlchemyError) -> HostlerError | None:
        """Say why the server cannot be reached or rejects the login."""
        return why_unopened(error, self._location)

    def lock_schema(self, connection: Connection) -> None:
        """Wait until no other replica migrates; the server releases the lock with the transaction."""
        connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({SCHEMA_LOCK})")

    def announce(self, connection: Connection) -> None:
        """Send a notice, which the server delivers when the transaction commits."""
        connection.exec_driver_sql(f"NOTIFY {CHANNEL}")

    def can_commit(self, connection: Connection) -> bool:
        """Return False in a failed transaction: there the server answers COMMIT by a silent rollback."""
        raw = connection.connection.driver_connection
        return isinstance(raw, psycopg.Connection) and raw.info.transaction_status == TransactionStatus.INTRANS

    def after_commit(self, connection: Connection) -> None:
        """Do nothing: the server maintains its own files."""

    def is_refusal(self, error: BaseException) -> bool:
        """Say whether the server itself answered, on a connection that still works."""
        if (
            not isinstance(error, DBAPIError)
            or error.connection_invalidated
            or not isinstance(error.orig, psycopg.Error)
        ):
            return False
        state = error.orig.sqlstate
        return bool(state) and not str(state).startswith(_UNCERTAIN)

    def is_standby(self, connection: Connection) -> bool:
        """Say whether the server replays the log of another server."""
        return bool(connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one())

    def why_gone(self) -> str:
        """Return None: a server that lost commits is found by its log."""
        return ""

    def close(self) -> None:
        """Close all connections."""
        self.notifier.close()
        self.reading.dispose()
        self.writing.dispose()


def _connect_arguments(limits: DatabaseLimits) -> dict[str, Any]:
    """Return keep-alive settings, because TCP alone takes many minutes to notice a dead server."""
    return {
        "connect_timeout": max(2, round(limits.connect_s)),
        "application_name": "hostler",
        "client_encoding": _ENCODING,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }


def _engine(url: URL, limits: DatabaseLimits, options: dict[str, Any]) -> Engine:
    """Return an engine with session limits, whose COMMITs always wait for the disk."""
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
    """Reject a database whose encoding cannot store every character."""
    found = raw.info.parameter_status("server_encoding")
    if found != _ENCODING:
        hint = f"make one that can: createdb --encoding {_ENCODING} --template template0 NAME"
        raise InputError(f"the database {raw.info.dbname} keeps texts as {found}, not as {_ENCODING}", hint=hint)


CHANNEL = "hostler_log"
_LOOK_S = 0.5  # how long closing may take
_AGAIN_S = 1.0


class PostgresNotifier(Notifier):
    """Listens in a thread, from the first wait on."""

    def __init__(self, url: URL, limits: DatabaseLimits) -> None:
        super().__init__()
        self._address = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._limits = limits
        self._ended = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.is_listening = threading.Event()

    async def wait(self, timeout_s: float, *, since: int | None = None) -> int:
        """Return the count once it exceeds ``since`` (default: the count now), or after the timeout."""
        self.listen()
        return await super().wait(timeout_s, since=since)

    def listen(self) -> None:
        """Start the thread, if it does not run yet."""
        with self._starting:
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name="hostler-listen", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread and its connection."""
        with self._starting:
            self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except psycopg.Error:
                self.is_listening.clear()
                self._ended.wait(_AGAIN_S)

    def _follow(self) -> None:
        """Pass on notices until the end, or until the connection breaks."""
        with self._connect() as connection:
            connection.execute(f"LISTEN {CHANNEL}".encode())
            self.is_listening.set()
            self.poke()  # notices may have been missed
            while not self._ended.is_set():
                for _ in connection.notifies(timeout=_LOOK_S, stop_after=1):
                    self.poke()

    def _connect(self) -> psycopg.Connection[Any]:
        timeout = max(2, round(self._limits.connect_s))
        return psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=timeout,
            application_name="hostler-listen",
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
        )


_NO_HOST = "failed to resolve host"
_SERVER = "the PostgreSQL server at {where}"
_BY = "--database-url or HOSTLER_DATABASE_URL"
_KEPT = "HOSTLER_DATABASE_URL or a password file (~/.pgpass)"
_ADMINISTRATOR = "an administrator of the server"
# What libpq says, what we say, and what to do; the first that matches counts.
_KNOWN = (
    (
        "Connection refused|No such file or directory",
        "no PostgreSQL server listens at {where}",
        f"start it, or name the right one by {_BY}",
    ),
    (_NO_HOST, "the PostgreSQL host {host} is unknown", f"check its name in {_BY}"),
    (
        "timeout expired|timed out|No route to host|Network is unreachable",
        f"{_SERVER} does not answer",
        f"check the address in {_BY}, that the server runs, and firewalls on the way",
    ),
    ("no password supplied", f"{_SERVER} wants a password of user {{user}}", f"put it into {_KEPT}"),
    (
        "password authentication failed",
        f"{_SERVER} rejects the password of user {{user}}",
        f"put the right one into {_KEPT}",
    ),
    (
        "(?i)(peer|ident) authentication failed",
        f"{_SERVER} lets only the system's user {{user}} in as {{user}}",
        "run as that one, name your own user in the URL, or go by the network: postgresql://user@127.0.0.1/database",
    ),
    (
        r"no pg_hba\.conf (entry for|rejects) .*no encryption",
        f"{_SERVER} does not let user {{user}} into database {{database}} without TLS",
        f"add sslmode=require to the URL, or let {_ADMINISTRATOR} allow it in pg_hba.conf",
    ),
    (
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        f"{_SERVER} does not let user {{user}} into database {{database}} from this machine",
        f"let {_ADMINISTRATOR} allow it in pg_hba.conf",
    ),
    (
        "server does not support SSL",
        f"{_SERVER} speaks no TLS, which sslmode in the URL asks for",
        f"let {_ADMINISTRATOR} set ssl = on; sslmode=disable does without, on a network that you trust",
    ),
    (
        "certificate|SSL error",
        f"{_SERVER} has no certificate that passes as sslmode in the URL asks for",
        "name who signed it by sslrootcert=FILE in the URL, and the host as the certificate does",
    ),
    (r'role ".*" does not exist', f"{_SERVER} knows no user {{user}}", f"as {_ADMINISTRATOR}: {{createuser}}"),
    (r'database ".*" does not exist', f"{_SERVER} has no database {{database}}", f"as {_ADMINISTRATOR}: {{createdb}}"),
)


class _Asked(msgspec.Struct, frozen=True):
    """A connection attempt: its server, database and user."""

    host: str
    port: str
    user: str
    database: str

    def words(self) -> dict[str, str]:
        """Return the placeholders of the sentences; a host that is a folder means a socket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_socket = not host or host.startswith(("/", "@"))
        at = [*(("-h", self.host) if self.host else ()), *(("-p", self.port) if self.port else ())]
        return {
            "where": (host or "the socket of this machine") if is_socket else f"{host}:{self.port or 5432}",
            "host": self.host,
            "user": self.user,
            "database": self.database,
            "createuser": shlex.join(["createuser", *at, self.user]),
            "createdb": shlex.join(["createdb", *at, "-O", self.user, self.database]),
        }


def why_unopened(error: SQLAlchemyError, url: URL) -> DatabaseUnavailableError | None:
    """Say why a URL cannot be opened; None for errors that came later."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    if not isinstance(cause, psycopg.OperationalError) or (cause.pgconn is None and _NO_HOST not in str(cause)):
        return None
    words, what = _asked(cause, url).words(), cause_of(error)
    for pattern, message, hint in _KNOWN:
        if re.search(pattern, what):
            return DatabaseUnavailableError(message.format(**words), hint=hint.format(**words))
    return DatabaseUnavailableError(
        f"{_SERVER.format(**words)} accepts no connections now: {what}", hint="try again in a moment"
    )


def _asked(cause: psycopg.OperationalError, url: URL) -> _Asked:
    """Return what was asked, as libpq parsed it; from the URL, if libpq was not called."""
    found = cause.pgconn
    if found is not None:
        host, port, user, database = (part.decode() for part in (found.host, found.port, found.user, found.db))
        return _Asked(host, port, user, database)
    host = url.host or ",".join(url.normalized_query.get("host", ()))
    return _Asked(host, str(url.port or ""), url.username or "", url.database or "")
