"""Options of ``hostler serve`` that say how much a caller may ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.options import NumberRange

if TYPE_CHECKING:
    from hostler.control.access.limits import Limits, Rate

__all__ = ["limit_options", "read_limits"]

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--read-limit", metavar="RATE", default="3000/60", show_default=True,
        help="How often one key may read: calls per seconds, or off.",
    ),
    click.option(
        "--change-limit", metavar="RATE", default="300/60", show_default=True,
        help="How often one key may change something, or ask what would be.",
    ),
    click.option(
        "--project-read-limit", metavar="RATE", default="6000/60", show_default=True,
        help="How often all keys of one project together may read.",
    ),
    click.option(
        "--project-change-limit", metavar="RATE", default="600/60", show_default=True,
        help="How often all keys of one project together may change something; above 4 KiB, one counts as several.",
    ),
    click.option(
        "--failure-limit", metavar="RATE", default="10/60", show_default=True,
        help="How often one address may fail to authenticate before it is locked out.",
    ),
    click.option("--no-rate-limits", is_flag=True, help="None of these five: for load tests on loopback."),
    click.option(
        "--vms-per-project", type=click.IntRange(1, 10_000_000), default=10_000, show_default=True,
        help="How many VMs one project may have, those that wait for a place among them.",
    ),
    click.option(
        "--streams", type=click.IntRange(1, 100_000), default=1000, show_default=True,
        help="How many streams of events all keys together may have open.",
    ),
    click.option(
        "--streams-per-key", type=click.IntRange(1, 100_000), default=32, show_default=True,
        help="How many streams of events one key may have open.",
    ),
    click.option(
        "--head-timeout", "head_s", type=NumberRange(0.5, 3600), default=30.0, show_default=True,
        help="Seconds after which a connection is closed that has sent no whole head of a request.",
    ),
    click.option(
        "--body-timeout", "read_s", type=NumberRange(0.5, 3600), default=30.0, show_default=True,
        help="Seconds that the body of a request may take.",
    ),
)  # fmt: skip


def limit_options(command: F) -> F:
    """Add the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_limits(*, reads: str, changes: str, project_reads: str, project_changes: str, failures: str) -> Limits:
    """Return the rates that options name; InputError."""
    from hostler.control.access.limits import Limits, parse_rate
    from hostler.errors import InputError

    def rate(option: str, text: str) -> Rate | None:
        try:
            return parse_rate(text)
        except InputError as error:
            raise InputError(f"{option}: {error.message}", hint=error.hint) from None

    return Limits(
        reads=rate("--read-limit", reads),
        changes=rate("--change-limit", changes),
        project_reads=rate("--project-read-limit", project_reads),
        project_changes=rate("--project-change-limit", project_changes),
        failures=rate("--failure-limit", failures),
    )
