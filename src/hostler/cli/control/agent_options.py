"""Options of agents, as people write them, to values; shared by ``agent`` and ``fleet``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.config.secret_files import read_private
from hostler.config.secret_words import looks_secret
from hostler.errors import InputError, QuantityError

if TYPE_CHECKING:
    from hostler.agent.messages import HostSize

__all__ = ["check_host_name", "read_labels", "read_pairs", "read_secret_lines", "read_size", "server_options"]

F = TypeVar("F", bound=Callable[..., Any])

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")  # as tokens allow
_LABEL_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,250}[A-Za-z0-9])?")
_LONGEST_LABEL = 253
_LONGEST_SECRETS = 16 * 2**20
_LONGEST_SECRET = 4096  # one line of them
_MOST_GPUS = 1024
STANDARD_STREAM = "-"


def server_options() -> Callable[[F], F]:
    """Add how to reach the control plane."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--insecure",
                is_flag=True,
                help="Speak plain http:// beyond this machine: only on networks that are safe.",
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
    """Return the size of a fake host, such as ``cpu=8,memory=16Gi,disk=500Gi,gpu=2``; None where none was given."""
    if not text:
        return None
    from hostler.agent.messages import DeviceHere, HostSize
    from hostler.model import STORAGE, parse_resource

    hint = "such as cpu=8,memory=16Gi,disk=500Gi,gpu=2; cpu and memory are needed"
    given: dict[str, int] = {}
    for part in text.split(","):
        name, equals, amount = part.strip().partition("=")
        if name not in ("cpu", "memory", "disk", "gpu") or not equals or name in given:
            raise InputError(f"--size: {part.strip()[:60]!r} is no part of a size", hint=hint)
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


def read_pairs(option: str, words: Sequence[str]) -> dict[str, str]:
    """Split words such as ``name=value``; a name that is given twice is refused."""
    pairs: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals or not value:
            raise InputError(f"{option} {word[:80]!r} is no pair", hint=f"write {option} NAME=VALUE")
        if name in pairs:
            raise InputError(f"{option} names {name!r} twice", hint="leave one of them out")
        pairs[name] = value
    return pairs


def read_labels(words: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return labels in the order of their keys."""
    from hostler.control.vms.spec import check_labels

    labels = read_pairs("--label", words)
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or len(value) > _LONGEST_LABEL or not value.isprintable():
            raise InputError(
                f"--label {key[:80]!r} is no label", hint="keys are letters, digits and ._/- such as zone or disk/kind"
            )
    check_labels("--label", labels)
    return tuple(sorted(labels.items()))


def check_host_name(name: str) -> str:
    """Return a name that a host can bear."""
    if not _HOST_NAME.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} is no name of a host",
            hint="letters, digits and ._- in between, at most 253; see --name",
        )
    return name


def read_secret_lines(option: str, path: str) -> list[str]:
    """Read secrets, one per line, from a file that only its owner may read, or from standard input by ``-``."""
    shown = "the file" if looks_secret(path) else path
    try:
        if path == STANDARD_STREAM:
            content = sys.stdin.read(_LONGEST_SECRETS)
        else:
            content = read_private(Path(path), _LONGEST_SECRETS, option=option, shown=shown)
    except (OSError, ValueError) as error:
        if looks_secret(path):
            hint = "put the secret into a file that only you may read, and name that; whoever saw it here can use it"
            raise InputError(f"{option}: that looks like a secret, not a file", hint=hint) from None
        problem = (getattr(error, "strerror", None) or "it is no plain text").lower()
        raise InputError(f"{option}: {path} cannot be read: {problem}", hint="check the path and its owner") from None
    lines = [line.strip() for line in content.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{option}: {shown} is empty", hint="it must hold what the control plane gave out")
    if any(len(line) > _LONGEST_SECRET or not line.isprintable() for line in lines):
        raise InputError(f"{option}: {shown} holds no secret", hint="it must hold what the control plane gave out")
    return lines
