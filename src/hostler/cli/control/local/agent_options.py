"""Options that ``agent`` and ``dev fleet`` share, and their parsers.

They set how to connect to the control plane, how large a fake host is, how long its actions take, and which fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import click
from msgspec.structs import replace

from hostler.cli.control.options import read_pairs
from hostler.errors import InputError, QuantityError

if TYPE_CHECKING:
    from hostler.agent.drivers.fake import Fault
    from hostler.agent.messages import HostSize

__all__ = [
    "check_host_name", "fake_options", "read_delays", "read_faults", "read_labels", "read_size", "server_options",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_Kind: TypeAlias = Literal["transient", "permanent", "blocked"]

ANY = "any"
_LONGEST_S = 3600.0
_WORDS = "create, start, stop, pause, resume, resize, delete, await_landing, send or any"


def fake_options() -> Callable[[F], F]:
    """Add the options for fake hosts."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--fault",
                "faults",
                metavar="ACTION=CHANCE[:KIND[:after]]",
                multiple=True,
                help="Let an action of a fake host fail, such as create=0.1 or start=1:permanent: transient "
                "(the default), permanent or blocked; 'after': it is done first, then reported as failed. "
                "May be repeated.",
            ),
            click.option(
                "--delay",
                "delays",
                metavar="ACTION=SECONDS",
                multiple=True,
                help=f"Let an action of a fake host take this many seconds, such as create=0.5: {_WORDS}. "
                "May be repeated.",
            ),
        ):
            command = option(command)
        return command

    return add


def read_delays(words: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Return how long actions take, in seconds; a named action overrides any."""
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
    """Return the configured faults."""
    from hostler.agent.drivers.fake import DEEDS, Fault

    found: list[Fault] = []
    for word in words:
        deed, rest = _split("--fault", word)
        text, *more = rest.split(":")
        chance = _number("--fault", word, text, 1.0, "a chance, 0 to 1")
        kind = more[0] if more else "transient"
        if kind not in ("transient", "permanent", "blocked") or more[1:] not in ([], ["after"]):
            hint = "after the chance comes transient, permanent or blocked, and after that perhaps 'after'"
            raise InputError(f"--fault {word[:80]!r} is not a fault", hint=f"{hint}: create=0.1:permanent:after")
        fault = Fault(chance=chance, kind=cast("_Kind", kind), is_after=bool(more[1:]))
        found += [replace(fault, verb=verb) for verb in (DEEDS if deed == ANY else (deed,))]
    return tuple(found)


def _split(option: str, word: str) -> tuple[str, str]:
    from hostler.agent.drivers.fake import DEEDS

    deed, equals, rest = word.partition("=")
    if not equals or deed not in (*DEEDS, ANY):
        raise InputError(f"{option} {word[:80]!r} names no action", hint=f"write ACTION=…, of {_WORDS}")
    return deed, rest


def _number(option: str, word: str, text: str, most: float, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= most:  # what is no number at all is neither
        raise InputError(f"{option} {word[:80]!r}: {text[:40]!r} is not {what}", hint="such as create=0.5")
    return number


_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")  # as tokens allow
_LABEL_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,250}[A-Za-z0-9])?")
_LONGEST_LABEL = 253
_MOST_GPUS = 1024


def server_options() -> Callable[[F], F]:
    """Add the options for the connection to the control plane."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--insecure",
                is_flag=True,
                help="Allow plain http:// beyond this machine: only on safe networks.",
            ),
            click.option(
                "--ca-file",
                metavar="FILE",
                type=click.Path(path_type=Path, readable=False),
                default=None,
                help="Certificates (PEM) that sign the server's; else those that this machine trusts.",
            ),
            click.option(
                "--server",
                metavar="URL",
                required=True,
                help="The control plane, such as https://control.example:8443.",
            ),
        ):
            command = option(command)
        return command

    return add


def read_size(text: str) -> HostSize | None:
    """Parse the size of a fake host, such as ``cpu=8,memory=16Gi,disk=500Gi,gpu=2``; None if it is not given."""
    if not text:
        return None
    from hostler.agent.messages import DeviceHere, HostSize
    from hostler.model import STORAGE, parse_resource

    hint = "such as cpu=8,memory=16Gi,disk=500Gi,gpu=2; cpu and memory are needed"
    given: dict[str, int] = {}
    for part in text.split(","):
        name, equals, amount = part.strip().partition("=")
        if name not in ("cpu", "memory", "disk", "gpu") or not equals or name in given:
            raise InputError(f"--size: {part.strip()[:60]!r} is not a size", hint=hint)
        try:
            given[name] = parse_resource(STORAGE if name == "disk" else name, amount)
        except QuantityError as error:
            raise QuantityError(f"--size: {name}: {error.message}", hint=error.hint) from None
    if not given.get("cpu") or not given.get("memory"):
        raise InputError("--size: a host needs cpu and memory", hint=hint)
    if given.get("gpu", 0) > _MOST_GPUS:
        raise InputError(f"--size: {given['gpu']} gpus are too many", hint=f"at most {_MOST_GPUS}")
    return HostSize(
        cpu_millis=given["cpu"],
        memory_bytes=given["memory"],
        disk_bytes=given.get("disk", 0),
        devices=(DeviceHere(kind="gpu"),) * given.get("gpu", 0),
    )


def read_labels(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return labels in the order of their keys."""
    from hostler.control.vms.spec import check_labels

    labels = read_pairs("--label", words)
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or len(value) > _LONGEST_LABEL or not value.isprintable():
            raise InputError(
                f"--label {key[:80]!r} is not a label",
                hint="keys are letters, digits and ._/- such as zone or disk/kind",
            )
    check_labels("--label", labels)
    return tuple(sorted(labels.items()))


def check_host_name(name: str) -> str:
    """Return a valid host name; InputError."""
    if not _HOST_NAME.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} is not a host name",
            hint="letters, digits and ._- in between, at most 253; see --name",
        )
    return name
