"""How fake hosts behave, as options of ``agent`` and ``dev fleet``: how long deeds take, and which of them fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import click
from msgspec.structs import replace

from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.agent.drivers.fake import Fault

__all__ = ["fake_options", "read_delays", "read_faults"]

F = TypeVar("F", bound=Callable[..., Any])

_Kind: TypeAlias = Literal["transient", "permanent", "blocked"]

ANY = "any"
_LONGEST_S = 3600.0
_WORDS = "create, start, stop, pause, resume, resize, delete, await_landing, send or any"


def fake_options() -> Callable[[F], F]:
    """Add how fake hosts behave."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--fault",
                "faults",
                metavar="DEED=CHANCE[:KIND[:after]]",
                multiple=True,
                help="Let a deed of a fake host fail on purpose, such as create=0.1 or start=1:permanent: transient "
                "(what is not said), permanent or blocked; 'after': it is done first, and then said to have failed. "
                "As often as wanted.",
            ),
            click.option(
                "--delay",
                "delays",
                metavar="DEED=SECONDS",
                multiple=True,
                help=f"Let a deed of a fake host take so long, such as create=0.5: {_WORDS}. As often as wanted.",
            ),
        ):
            command = option(command)
        return command

    return add


def read_delays(words: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return how long deeds take, in seconds; a deed by its name beats any."""
    from hostler.agent.drivers.fake import DEEDS

    given: dict[str, float] = {}
    for word in words:
        deed, text = _split("--delay", word)
        if deed in given:
            raise InputError(f"--delay names {deed} twice", hint="leave one of them out")
        given[deed] = _number("--delay", word, text, _LONGEST_S, "seconds, 0 to 3600")
    anyhow = given.pop(ANY, None)
    found = dict.fromkeys(DEEDS, anyhow) if anyhow is not None else {}
    return tuple((found | given).items())


def read_faults(words: Sequence[str]) -> tuple[Fault, ...]:
    """Return what goes wrong."""
    from hostler.agent.drivers.fake import DEEDS, Fault

    found: list[Fault] = []
    for word in words:
        deed, rest = _split("--fault", word)
        text, *more = rest.split(":")
        chance = _number("--fault", word, text, 1.0, "a chance, 0 to 1")
        kind = more[0] if more else "transient"
        if kind not in ("transient", "permanent", "blocked") or more[1:] not in ([], ["after"]):
            hint = "after the chance comes transient, permanent or blocked, and after that perhaps 'after'"
            raise InputError(f"--fault {word[:80]!r} is no fault", hint=f"{hint}: create=0.1:permanent:after")
        fault = Fault(chance=chance, kind=cast("_Kind", kind), is_after=bool(more[1:]))
        found += [replace(fault, verb=verb) for verb in (DEEDS if deed == ANY else (deed,))]
    return tuple(found)


def _split(option: str, word: str) -> tuple[str, str]:
    from hostler.agent.drivers.fake import DEEDS

    deed, equals, rest = word.partition("=")
    if not equals or deed not in (*DEEDS, ANY):
        raise InputError(f"{option} {word[:80]!r} names no deed", hint=f"write DEED=…, of {_WORDS}")
    return deed, rest


def _number(option: str, word: str, text: str, most: float, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= most:  # what is no number at all is neither
        raise InputError(f"{option} {word[:80]!r}: {text[:40]!r} is not {what}", hint="such as create=0.5")
    return number
