"""A real PostgreSQL server for tests: Debian's, as an unprivileged user, in a temporary folder, on a socket only.

Import the fixture ``postgres`` into a ``conftest.py``. One server serves a whole run (of one worker); each test gets a
database of its own from ``new_database``. The kernel ends the server with the process that started it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.wait import GIVE_UP_S, wait_until

__all__ = ["PostgresServer", "nobody_connected", "postgres", "why_no_postgres"]

_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # the machine does not lose power in these tests, processes die
    "shared_buffers": "16MB",
    "max_connections": "60",
    "log_min_messages": "error",
}


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def _user() -> str:
    """Return whom to run as: PostgreSQL refuses root."""
    if os.getuid() != 0:
        return ""
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return "nobody"


def why_no_postgres() -> str:
    """Return why there is no server to be had, or nothing."""
    if _programs() is None:
        return "PostgreSQL's server is not installed (apt-get install postgresql)"
    if shutil.which("setpriv") is None:
        return "setpriv is not installed (apt-get install util-linux)"
    return ""


def nobody_connected(url: str) -> None:
    """Wait until no session of ours is left in a database: a server ends them a moment after they were closed."""
    ours = "datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE 'hostler%'"
    with psycopg.connect(url, autocommit=True) as connection:
        query = f"SELECT array_agg(pid) FROM pg_stat_activity WHERE {ours}".encode()
        wait_until(lambda: connection.execute(query).fetchone() == (None,), "no session of ours in the database")


class PostgresServer:
    """A server that can be stopped, killed and started again on the same data."""

    def __init__(self, **settings: str) -> None:
        self._settings = _SETTINGS | settings
        programs = _programs()
        assert programs is not None
        self._programs = programs
        self._user = _user()
        self.folder = Path(tempfile.mkdtemp(prefix="hostler-pg-"))  # a socket's path must be short
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        try:
            options = ("-U", "hostler", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
            command = self._as_user(self._programs / "initdb", "-D", self._data, *options)
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        """Start the server and wait until it answers; after a crash its remains may need a moment to go."""
        deadline = time.monotonic() + GIVE_UP_S
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = self._as_user(self._programs / "postgres", "-D", self._data, "-k", self.folder, *settings)
        while True:
            if self._process is None or self._process.poll() is not None:
                with (self.folder / "server.log").open("ab") as output:
                    self._process = subprocess.Popen(command, cwd=self.folder, stdout=output, stderr=output)
            try:
                with psycopg.connect(self.address("postgres")) as connection:
                    connection.execute("SELECT 1")
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "server.log").read_text()
                time.sleep(0.05)

    def stop(self) -> None:
        """End the server and all its sessions in good order."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Kill the server at once; what was committed is recovered at the next start."""
        self._end(signal.SIGKILL)

    def become_standby(self) -> None:
        """Start again as a server that follows another one, as which it can only be read."""
        self.stop()
        signal_file = self._data / "standby.signal"
        signal_file.touch()
        if self._user:
            account = pwd.getpwnam(self._user)
            os.chown(signal_file, account.pw_uid, account.pw_gid)
        self.start()

    def close(self) -> None:
        """End the server and remove all of it."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, database: str, *, host: str = "", port: int = 0) -> str:
        """Return the URL of a database, through another host and port if told so."""
        where = f"host={host}&port={port}" if host else f"host={self.folder}"
        return f"postgresql://hostler@/{database}?{where}&sslmode=disable"

    def new_database(self) -> str:
        """Make an empty database and return its name."""
        self._databases += 1
        name = f"test_{os.getpid()}_{self._databases}"
        self.sql(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name: str) -> None:
        """Remove a database, even if it is in use."""
        self.sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def sql(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement on a connection that is not of the code under test."""
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @property
    def socket(self) -> Path:
        """Return where it listens."""
        return self.folder / ".s.PGSQL.5432"

    def _as_user(self, program: Path, *arguments: str | Path) -> list[str]:
        command = ["setpriv"]
        if self._user:
            group = str(pwd.getpwnam(self._user).pw_gid)
            command += ["--reuid", self._user, "--regid", group, "--clear-groups"]
        # SIGQUIT makes it end at once when we are gone.
        return [*command, "--pdeathsig", "QUIT", "--", str(program), *map(str, arguments)]

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(GIVE_UP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Give a server for the whole run."""
    reason = why_no_postgres()
    if reason:
        pytest.skip(reason)
    # The kernel ends it with the thread that started it, so that must not be one of a pool.
    assert threading.current_thread() is threading.main_thread()
    server = PostgresServer()
    try:
        yield server
    finally:
        server.close()
