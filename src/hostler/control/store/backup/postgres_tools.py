"""Runs ``pg_dump`` and ``pg_restore``: finds them, checks their release, and hides secrets.

The location of the database is an argument, which every user of the machine may see. The password is passed by the
environment, which only this user and root can read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.conninfo import make_conninfo
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.engine import URL

from hostler.control.store.errors import BackupError

__all__ = ["PostgresTools"]

_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_SECRETS = ("sslpassword",)  # those that libpq takes from no environment


class PostgresTools:
    """The programs for one database."""

    def __init__(self, url: URL) -> None:
        # As SQLAlchemy connects, so that both mean the same database.
        _, options = PGDialect_psycopg().create_connect_args(url)  # type: ignore[no-untyped-call]
        self._password = str(options.pop("password", "") or "")
        for name in _SECRETS:
            if name in options:
                hint = "use a client key that has no pass phrase, readable by its owner only"
                raise BackupError(f"{name} cannot be passed on to PostgreSQL's tools unseen", hint=hint)
        self._where = make_conninfo("", **options)

    def check(self, server: int) -> None:
        """Reject tools that are missing, or older than the server: they could not read its data."""
        for name in ("pg_dump", "pg_restore"):
            found = _VERSION.search(self._run(name, "--version"))
            if found is None or int(found[1]) < server:
                which = f"is of release {found[1]}" if found is not None else "does not say its release"
                hint = f"install those of the server (Debian: postgresql-client-{server}), and put them first in PATH"
                raise BackupError(f"{name} {which}, and the server of release {server}", hint=hint)

    def dump(self, *arguments: str) -> None:
        """Run pg_dump on the database."""
        self._run("pg_dump", "--no-password", *arguments, f"--dbname={self._where}")

    def read(self, *arguments: str) -> str:
        """Run pg_restore on a file alone and return its output."""
        return self._run("pg_restore", *arguments)

    @contextmanager
    def stream(self, *arguments: str) -> Iterator[Iterator[bytes]]:
        """Run pg_restore on a file alone and yield its output line by line; BackupError if it fails."""
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [self._find("pg_restore"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
            try:
                assert process.stdout is not None
                with process.stdout as lines:
                    yield iter(lines)
                    for _ in lines:  # it fails if its output is not read completely
                        pass
            except BaseException:
                process.kill()
                raise
            finally:
                process.wait()
            if process.returncode != 0:
                errors.seek(0)
                raise _failure("pg_restore", process.returncode, errors.read())

    def _run(self, name: str, *arguments: str) -> str:
        program = self._find(name)
        environment = dict(os.environ)
        if self._password:
            environment["PGPASSWORD"] = self._password
        done = subprocess.run(
            [program, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode != 0:
            raise _failure(name, done.returncode, done.stderr)
        return done.stdout.decode(errors="replace")

    def _find(self, name: str) -> str:
        program = shutil.which(name)
        if program is None:
            hint = "install PostgreSQL's client (Debian: postgresql-client), or use its tools on another machine"
            raise BackupError(f"{name} is not installed, which does this for PostgreSQL", hint=hint)
        return program


def _failure(name: str, code: int, output: bytes) -> BackupError:
    lines = output.decode(errors="replace").strip().splitlines()
    said = lines[0].removeprefix(f"{name}: ").removeprefix("error: ") if lines else f"exit {code}"
    return BackupError(f"{name} failed: {said}", hint="nothing that exists was changed")
