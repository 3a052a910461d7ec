"""Options of commands for a control plane, their parsers, and confirmations.

Words become plain values here; ``as_schema`` turns them into REST schemas. Errors name the option.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from hostler.cli.output.terminal import note, printable
from hostler.errors import InputError

__all__ = [
    "DURATIONS",
    "VARIABLE",
    "as_schema",
    "confirm",
    "confirm_by_name",
    "database_option",
    "life_of",
    "read_amounts",
    "read_changes",
    "read_pairs",
    "read_patch",
    "seconds_of",
    "yes_option",
]  # fmt: skip

T = TypeVar("T")


def as_schema(shape: type[T], words: dict[str, Any]) -> T:
    """Return a schema from plain values; InputError if the server would reject them."""
    import msgspec

    from hostler.control.vms.names import find_name_error

    try:
        return msgspec.convert(words, shape)
    except msgspec.ValidationError as error:
        if (refused := find_name_error(str(error), words)) is not None:
            raise refused from None
        what, _, place = str(error).partition(" - at `$.")
        field = place.rstrip("`") or "the options"
        raise InputError(f"{field}: {what[:1].lower()}{what[1:]}", hint="see --help for what it may be") from None


F = TypeVar("F", bound=Callable[..., Any])

_DAY_S = 86_400
_SHORTEST_S = 60
DURATIONS = "seconds, or a duration such as 90s, 5m or 1h30m"
_NS = 1_000_000_000


def yes_option() -> Callable[[F], F]:
    """Add ``--yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask on a terminal. Without a terminal ``--yes`` is required."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise InputError(f"{question} Cannot prompt: standard input is not a terminal", hint="--yes confirms it")
    if not click.confirm(printable(question), err=True):
        raise click.Abort


def confirm_by_name(name: str, what: str, given: str) -> str:
    """Ask for a name before an irreversible action; return what was typed."""
    if given:
        return given
    if not sys.stdin.isatty():
        raise InputError(
            f"{what}. Cannot prompt for the host's name: standard input is not a terminal", hint=f"--confirm {name}"
        )
    return str(click.prompt(printable(f"{what}. Type the name of the host to continue"), err=True))


def read_pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    """Split words such as ``name=value``; a repeated name is rejected."""
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals or not value:
            raise InputError(f"{option} {word[:80]!r} is not a NAME=VALUE pair", hint=f"write {option} NAME=VALUE")
        if name in pairs:
            raise InputError(f"{option} names {name!r} twice", hint="leave one of them out")
        pairs[name] = value
    return pairs


def read_amounts(option: str, words: Sequence[str]) -> dict[str, str | int | float]:
    """Parse amounts such as ``cpu=8``; one word may hold several, separated by commas."""
    return dict(read_pairs(option, [part for word in words for part in word.split(",") if part]))


def read_patch(words: Sequence[str]) -> dict[str, str | None]:
    """Parse label changes in the form of kubectl: ``key=value`` sets one, ``key-`` removes it (None)."""
    patch: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key:
            patch[key] = value
        elif not equals and len(word) > 1 and word.endswith("-"):
            patch[word[:-1]] = None
        else:
            raise InputError(f"{word[:80]!r} is not a label change", hint="write KEY=VALUE, or KEY- to remove it")
    return patch


def read_changes(words: Sequence[str], before: dict[str, str]) -> dict[str, str]:
    """Return labels after changes."""
    return {key: value for key, value in {**before, **read_patch(words)}.items() if value is not None}


def seconds_of(option: str, text: str) -> int:
    """Parse a duration such as ``1h``, ``90s`` or ``3600`` to whole seconds."""
    from hostler.config import parse_duration
    from hostler.errors import QuantityError

    try:
        nanoseconds = parse_duration(f"{text}s" if text.isdecimal() else text)
    except QuantityError as error:
        raise QuantityError(f"{option}: {error.message}", hint=f"give {option} {DURATIONS}") from None
    if nanoseconds % _NS:
        raise QuantityError(f"{option}: {text!r} is not a whole number of seconds", hint=f"give {option} {DURATIONS}")
    return nanoseconds // _NS


def life_of(option: str, text: str, *, longest_d: int) -> int:
    """Parse the life of a secret: at least a minute, and at most that many days."""
    seconds = seconds_of(option, text)
    if _SHORTEST_S <= seconds <= longest_d * _DAY_S:
        return seconds
    what = "short" if seconds < _SHORTEST_S else "long"
    raise InputError(f"{option}: {text} is too {what}", hint=f"give {option} 1m to {longest_d * 24}h")


VARIABLE = "HOSTLER_DATABASE_URL"
_SEEN = f"other users of this machine can read the password in --database-url: set {VARIABLE}, or use a password file"


def database_option(help_text: str) -> Callable[[F], F]:
    """Add ``--database-url``, with a warning about a password in it: other users can read arguments."""

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
    except ValueError:  # an invalid URL is reported when it is opened
        return "@" in url and ":" in url.partition("://")[2].rpartition("@")[0]
