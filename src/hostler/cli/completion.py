"""What the shell completes of names that this machine knows: policies, workloads and the trace of the package.

Names of a control plane are completed in ``control/connection.py``. A completion never fails: without its package it
offers nothing. Everything is imported when the user presses tab.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import click
from click.shell_completion import CompletionItem

__all__ = ["complete_compared_policy", "complete_input", "complete_policies", "complete_policy", "complete_workload"]
__all__ += ["complete_workloads"]

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[str]]


def _policies() -> list[str]:
    from hostler.engine import BUILT_IN

    return sorted(BUILT_IN)


def _workloads() -> list[str]:
    from hostler.sim.traces.openb import WORKLOADS

    return list(WORKLOADS)


def _compared() -> list[str]:
    return ["first", "best", *_policies()]


def _one_of(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a completion of one name."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        return [name for name in _known(names) if name.startswith(incomplete)]

    return complete


def _some_of(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a completion of the last of several names with commas between them; none is offered twice."""

    def complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in _known(names) if name.startswith(last) and name not in taken]

    return complete


def _known(names: Callable[[], Iterable[str]]) -> Iterable[str]:
    try:
        return names()
    except ImportError:  # an extra that is not installed
        return []


complete_policy = _one_of(_policies)
complete_policies = _some_of(_policies)
complete_compared_policy = _one_of(_compared)
complete_workload = _one_of(_workloads)
complete_workloads = _some_of(_workloads)


def complete_input(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the trace that comes with the package, and files."""
    traces = [CompletionItem("openb")] if "openb".startswith(incomplete) else []
    return [*traces, CompletionItem(incomplete, type="file")]
