"""Several things that are changed one after the other: nothing that was done goes unsaid."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from hostler.errors import HostlerError

__all__ = ["do_in_turn"]

T = TypeVar("T")
R = TypeVar("R")


def do_in_turn(things: Iterable[T], do: Callable[[T], R], show: Callable[[list[R]], None]) -> list[R]:
    """Do something to each and return what came of it; where one is refused, show what was done before it."""
    done: list[R] = []
    try:
        for thing in things:
            done.append(do(thing))  # noqa: PERF401 - what was done before a refusal is kept
    except HostlerError:
        if done:
            show(done)
        raise
    return done
