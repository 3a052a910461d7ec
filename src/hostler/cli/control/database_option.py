"""``--database-url``, the same for every command that opens the database of a control plane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from hostler.cli.terminal import note

__all__ = ["VARIABLE", "database_option"]

VARIABLE = "HOSTLER_DATABASE_URL"
F = TypeVar("F", bound=Callable[..., Any])
_SEEN = f"everybody on this machine can read the password in --database-url: set {VARIABLE}, or use a password file"


def database_option(help_text: str) -> Callable[[F], F]:
    """Add ``--database-url``; a password in it is warned of, since arguments can be read by everybody."""

    def read(context: click.Context, parameter: click.Parameter, value: str) -> str:
        is_argument = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if is_argument and _has_password(value):
            note(_SEEN, label="warning: ")
        return value

    return click.option("--database-url", metavar="URL", default="", envvar=VARIABLE, callback=read, help=help_text)


def _has_password(url: str) -> bool:
    from urllib.parse import parse_qs, urlsplit

    try:
        parts = urlsplit(url)
        return bool(parts.password) or "password" in parse_qs(parts.query)
    except ValueError:  # what it should be is told later, by those who open it
        return "@" in url and ":" in url.partition("://")[2].rpartition("@")[0]
