"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["FILE", "NumberRange", "config_option", "examples", "files_option", "output_option", "policy_option"]
__all__ += ["budgets_option", "preempt_option", "seed_annotations_option", "seed_option"]

F = TypeVar("F", bound=Callable[..., Any])

MAX_SEED = 2**32 - 1

# Only for the shell's completion: whether a file can be read is found out, and told, by those who read it.
FILE = click.Path(allow_dash=True, readable=False)


class NumberRange(click.FloatRange):
    """A range that ``nan`` is not in: it compares as neither too small nor too large."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def examples(*lines: str) -> str:
    """Return the end of a help text: commands to copy, which click must not wrap."""
    return "\n".join(("\b", f"Example{'s' if len(lines) > 1 else ''}:", *(f"  {line}" for line in lines)))


def files_option(*, required: bool = True) -> Callable[[F], F]:
    """Add ``-f FILE``, as often as wanted."""
    return click.option(
        "-f",
        "--file",
        "files",
        metavar="FILE",
        type=FILE,
        multiple=True,
        required=required,
        help="Hosts and guests: a Fleet of ours, or Kubernetes manifests; YAML or JSON. '-' is standard input. "
        "Give it as often as you like.",
    )


def output_option(*choices: str) -> Callable[[F], F]:
    """Add ``-o FORMAT``; the first choice is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="How the answer is written.",
    )


def policy_option() -> Callable[[F], F]:
    """Add ``--policy NAME``."""
    return click.option(
        "--policy",
        metavar="NAME",
        default="",
        shell_complete=_complete_policy,
        help="The policy of guests that name none; see 'hostler policies'.",
    )


def config_option() -> Callable[[F], F]:
    """Add ``--config FILE``."""
    return click.option(
        "--config", metavar="FILE", type=FILE, default="", help="A configuration file; else HOSTLER_CONFIG."
    )


def seed_option() -> Callable[[F], F]:
    """Add ``--seed N``."""
    return click.option(
        "--seed",
        metavar="N",
        type=click.IntRange(0, MAX_SEED),
        default=0,
        show_default=True,
        help="Where random choices come from; the same seed gives the same choices.",
    )


def preempt_option() -> Callable[[F], F]:
    """Add ``--preempt``."""
    return click.option(
        "--preempt", is_flag=True, help="Evict guests of lower priority for those that fit nowhere else."
    )


def budgets_option() -> Callable[[F], F]:
    """Add ``--budgets WORD``."""
    return click.option(
        "--budgets",
        type=click.Choice(["best_effort", "strict"]),
        default=None,
        help="Whether --preempt breaks disruption budgets when nothing else helps, or never; else the policy says.",
    )


def seed_annotations_option() -> Callable[[F], F]:
    """Add ``--seed-annotations``."""
    return click.option(
        "--seed-annotations",
        is_flag=True,
        help="Let the annotations 'priority' and 'pod-group' of pods count, as in the scheduler that this project grew "
        "from. Off unless given: whoever may create a pod could promote himself.",
    )


def _complete_policy(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the built-in policies that begin like this."""
    from hostler.engine import BUILT_IN

    return [name for name in BUILT_IN if name.startswith(incomplete)]
