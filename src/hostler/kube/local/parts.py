"""The parts of a control plane: their names, the program of each, and in which order they come and go."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.config import did_you_mean
from hostler.errors import UnknownNameError

__all__ = ["ALWAYS", "OPTIONAL", "PARTS", "PROGRAMS", "STOP_ORDER", "check_parts"]

# part: its program; in the order of starting
PROGRAMS = {
    "etcd": "etcd",
    "apiserver": "kube-apiserver",
    "controllers": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    "kwok": "kwok",
}
PARTS = tuple(PROGRAMS)
ALWAYS = ("etcd", "apiserver")
OPTIONAL = ("scheduler", "controllers", "kwok")

# Whoever asks goes before whoever answers: an API server whose etcd is gone lingers.
STOP_ORDER = ("kwok", "scheduler", "controllers", "apiserver", "etcd")


def check_parts(parts: Iterable[str]) -> tuple[str, ...]:
    """Return the optional parts in their order, each once; raise where one does not exist."""
    wanted = set(parts) - set(ALWAYS)
    for part in sorted(wanted - set(OPTIONAL)):
        raise UnknownNameError(
            f"no part of a local control plane is called {part!r}",
            hint=did_you_mean(part, OPTIONAL),
        )
    return tuple(part for part in PARTS if part in wanted)
