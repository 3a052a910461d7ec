"""For every command that asks a scoring service: the options about the questions, and what came of them as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.options import NumberRange
from hostler.cli.output.terminal import print_table, say
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.sim.scorer.client import ScorerCallCounts
    from hostler.sim.scorer.placer import OnFailure

__all__ = ["service_options", "show_questions"]

F = TypeVar("F", bound=Callable[..., Any])

_OUTCOMES: dict[OnFailure, str] = {
    "skip": "decided without an answer",
    "fail": "refused for it",
    "fall_back": "fell back",
    "stop": "stopped the run",
}


def service_options() -> Callable[[F], F]:
    """Add the options about how a scoring service is asked: how often, how long, and one node at a time or all."""
    options = (
        click.option(
            "--variant",
            type=click.Choice(["batch", "per_node"]),
            default="batch",
            show_default=True,
            help="One request for all nodes, or one for each.",
        ),
        click.option(
            "--missing",
            type=click.Choice(["zero", "refuse"]),
            default="zero",
            show_default=True,
            help="What a node without a score gets: 0, or no guest.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            metavar="SECONDS",
            type=NumberRange(0, 3600, min_open=True),
            default=5.0,
            show_default=True,
            help="How long one try may take.",
        ),
        click.option(
            "--retries", metavar="N", type=click.IntRange(0, 100), default=2, show_default=True, help="Further tries."
        ),
    )

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def show_questions(counts: ScorerCallCounts, on_failure: OnFailure) -> None:
    """Print how many questions were answered, and why the others were not."""
    parts = [plural(counts.asked, "guest"), plural(counts.answered, "usable answer"), plural(counts.retries, "retry")]
    say(f"asked about {', '.join(parts)}")
    if counts.missing_scores:
        say(f"missing scores: {counts.missing_scores:,}")
    if counts.failures:
        say(f"{plural(sum(counts.failures.values()), 'guest')} {_OUTCOMES[on_failure]}:")
        say()
        rows = [(kind.replace("_", " "), f"{n:,}", counts.first_failure[kind]) for kind, n in counts.failures.items()]
        print_table([("FAILURE", "left"), ("GUESTS", "right"), ("FIRST", "left")], rows)
