"""Why a PostgreSQL server cannot be reached or lets nobody in: which one, what failed, and what to do about it.

Before there is a connection libpq passes on no code, only a sentence: the few that people meet are known by their
words, of all others the sentence itself is told. No password is in any of them.
"""

from __future__ import annotations

import re
import shlex

import msgspec
import psycopg
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hostler.control.store.errors import DatabaseUnavailableError, cause_of

__all__ = ["why_unopened"]

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
    (_NO_HOST, "nobody knows the host {host}, where PostgreSQL is to be", f"check its name in {_BY}"),
    (
        "timeout expired|timed out|No route to host|Network is unreachable",
        f"{_SERVER} does not answer",
        f"check the address in {_BY}, that the server runs, and firewalls on the way",
    ),
    ("no password supplied", f"{_SERVER} wants a password of user {{user}}", f"put it into {_KEPT}"),
    (
        "password authentication failed",
        f"{_SERVER} refuses the password of user {{user}}",
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
    """What was asked of which server."""

    host: str
    port: str
    user: str
    database: str

    def words(self) -> dict[str, str]:
        """Return the words that sentences have; a host that is a folder is that of a socket."""
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
    """Return why there is no connection to what a URL names; None for what went wrong later."""
    cause = error.orig if isinstance(error, DBAPIError) else None
    if not isinstance(cause, psycopg.OperationalError) or (cause.pgconn is None and _NO_HOST not in str(cause)):
        return None
    words, what = _asked(cause, url).words(), cause_of(error)
    for pattern, message, hint in _KNOWN:
        if re.search(pattern, what):
            return DatabaseUnavailableError(message.format(**words), hint=hint.format(**words))
    return DatabaseUnavailableError(
        f"{_SERVER.format(**words)} lets nobody in now: {what}", hint="try again in a moment"
    )


def _asked(cause: psycopg.OperationalError, url: URL) -> _Asked:
    """Return what was asked, as libpq understood it; where it was not even called, as the URL has it."""
    found = cause.pgconn
    if found is not None:
        host, port, user, database = (part.decode() for part in (found.host, found.port, found.user, found.db))
        return _Asked(host, port, user, database)
    host = url.host or ",".join(url.normalized_query.get("host", ()))
    return _Asked(host, str(url.port or ""), url.username or "", url.database or "")
