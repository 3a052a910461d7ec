"""Words of the command line to values, and questions before what cannot be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from hostler.cli.control.agent_options import read_pairs
from hostler.cli.terminal import printable
from hostler.errors import InputError

__all__ = [
    "DURATIONS",
    "confirm",
    "confirm_by_name",
    "life_of",
    "read_amounts",
    "read_changes",
    "read_pairs",
    "read_patch",
    "seconds_of",
    "yes_option",
]

F = TypeVar("F", bound=Callable[..., Any])

_DAY_S = 86_400
_SHORTEST_S = 60
DURATIONS = "seconds, or a duration such as 90s, 5m or 1h30m"
_NS = 1_000_000_000


def yes_option() -> Callable[[F], F]:
    """Add ``--yes``."""
    return click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def confirm(question: str, *, is_sure: bool) -> None:
    """Ask on a terminal; without one, whoever means it says ``--yes``."""
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise InputError(f"{question} Nobody can be asked here", hint="--yes does it without asking")
    if not click.confirm(printable(question), err=True):
        raise click.Abort


def confirm_by_name(name: str, what: str, given: str) -> str:
    """Have a name written out before something that cannot be taken back; return what was written."""
    if given:
        return given
    if not sys.stdin.isatty():
        raise InputError(f"{what}. Nobody can be asked here for the host's name", hint=f"--confirm {name}")
    return str(click.prompt(printable(f"{what}. Write the host's name to go on"), err=True))


def read_amounts(option: str, words: Sequence[str]) -> dict[str, str | int | float]:
    """Read amounts such as ``cpu=8``; one word may hold several, with commas between them."""
    return dict(read_pairs(option, [part for word in words for part in word.split(",") if part]))


def read_patch(words: Sequence[str]) -> dict[str, str | None]:
    """Read changes of labels as kubectl writes them: ``key=value`` sets one, ``key-`` takes it away (None)."""
    patch: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key:
            patch[key] = value
        elif not equals and len(word) > 1 and word.endswith("-"):
            patch[word[:-1]] = None
        else:
            raise InputError(f"{word[:80]!r} is no change of a label", hint="write KEY=VALUE, or KEY- to take it away")
    return patch


def read_changes(words: Sequence[str], before: dict[str, str]) -> dict[str, str]:
    """Return labels after changes."""
    return {key: value for key, value in {**before, **read_patch(words)}.items() if value is not None}


def seconds_of(option: str, text: str) -> int:
    """Read a duration such as ``1h``, ``90s`` or ``3600``, to whole seconds."""
    from hostler.config import parse_duration
    from hostler.errors import QuantityError

    try:
        nanoseconds = parse_duration(f"{text}s" if text.isdecimal() else text)
    except QuantityError as error:
        raise QuantityError(f"{option}: {error.message}", hint=f"give {option} {DURATIONS}") from None
    if nanoseconds % _NS:
        raise QuantityError(f"{option}: {text!r} is no whole number of seconds", hint=f"give {option} {DURATIONS}")
    return nanoseconds // _NS


def life_of(option: str, text: str, *, longest_d: int) -> int:
    """Read for how long a secret is good: a minute at least, and no longer than that many days."""
    seconds = seconds_of(option, text)
    if _SHORTEST_S <= seconds <= longest_d * _DAY_S:
        return seconds
    what = "short" if seconds < _SHORTEST_S else "long"
    raise InputError(f"{option}: {text} is too {what}", hint=f"give {option} 1m to {longest_d * 24}h")
