"""``hostler capacity``: how many more of a guest fit, or how many hosts a set of guests needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hostler.cli.options import (
    FILE,
    config_option,
    examples,
    files_option,
    output_option,
    policy_option,
    seed_annotations_option,
    seed_option,
)
from hostler.cli.terminal import note, print_data, print_table, printable, say

if TYPE_CHECKING:
    from hostler.cli.capacities import Fit
    from hostler.cli.inputs import Inputs
    from hostler.cli.sizing import Sizing

__all__ = ["capacity"]

MOST = 1_000_000
UNLIMITED = "unlimited"


@click.command(
    epilog=examples(
        "hostler capacity -f fleet.yaml -f guests.yaml --guest small.yaml",
        "hostler capacity -f fleet.yaml --guest guests.yaml --guest-name web-0 -o wide",
        "hostler capacity -f fleet.yaml -f guests.yaml --hosts-like rack1-host7",
    ),
    short_help="Count how many more guests fit, or how many hosts are needed.",
)
@files_option()
@click.option(
    "--guest", "guest_file", metavar="FILE", type=FILE, default="", help="Count copies of the guest in this file."
)
@click.option("--guest-name", metavar="NAME", default="", help="Which guest of that file, when it has several.")
@click.option("--hosts-like", metavar="HOST", default="", help="Count hosts like this one for the pending guests.")
@click.option(
    "--max",
    "most",
    metavar="N",
    type=click.IntRange(min=1),
    default=MOST,
    show_default=True,
    help="Stop counting there.",
)
@policy_option()
@config_option()
@seed_option()
@seed_annotations_option()
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def capacity(
    ctx: click.Context,
    files: tuple[str, ...],
    guest_file: str,
    guest_name: str,
    hosts_like: str,
    most: int,
    policy: str,
    config: str,
    seed: int,
    seed_annotations: bool,
    output: str,
) -> None:
    """Count how many more of a guest fit, or how many hosts a set of guests needs.

    With --guest, the pending guests of the files are placed first, then copies of that guest until one is refused. A
    guest that requests nothing is bound only by the hosts' limits of guests; without any, the answer is "unlimited".
    With --hosts-like, the pending guests of the files are placed on an empty fleet of hosts like that one, and the
    smallest number of them is found on which all fit; the exit code is 1 when no number would do. Both by real
    placements under the policy; nobody is evicted, and for --hosts-like no quota counts.
    """
    if bool(guest_file) == bool(hosts_like):
        raise click.UsageError("give either --guest FILE or --hosts-like HOST")
    if guest_name and not guest_file:
        raise click.UsageError("--guest-name needs --guest FILE")
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        from hostler.cli.capacities import count_copies, read_guest
        from hostler.cli.inputs import read_inputs
        from hostler.cli.sizing import size_fleet

        if hosts_like:
            inputs = read_inputs(files, policy=policy, config=config, seed_annotations=seed_annotations)
            sizing = size_fleet(_without_evictions(inputs), compiled, hosts_like, seed=seed)
        else:
            guest = read_guest(guest_file, guest_name, seed_annotations=seed_annotations)
            inputs = read_inputs(
                files, policy=policy, config=config, seed_annotations=seed_annotations, more_specs=(guest.spec,)
            )
            fit = count_copies(_without_evictions(inputs), compiled, guest, most=most, seed=seed)
    if not hosts_like:
        _show_fit(fit, output)
        return
    _show_sizing(sizing, output)
    if sizing.misfits:
        ctx.exit(1)


def _without_evictions(inputs: Inputs) -> Inputs:
    import msgspec

    from hostler.cli.inputs import with_preemption

    return msgspec.structs.replace(inputs, policies=with_preemption(inputs.policies, is_on=False))


def _show_fit(fit: Fit, output: str) -> None:
    if output in ("json", "yaml"):
        print_data(_fit_as_data(fit), output)
        return
    from hostler.cli.runs import shown_name
    from hostler.cli.wording import plural, reason_line, request_text

    name = f"{shown_name(fit.guest)} ({request_text(fit.guest.spec)})"
    at_least = "at least " if fit.is_limit else ""
    if fit.count is None:
        say(f"{UNLIMITED}: any number of guests like {name} fits.")
    else:
        say(f"{at_least}{plural(fit.count, 'more guest')} like {name} fit{'s' if fit.count == 1 else ''}.")
    if fit.is_by_guests_alone:
        say(_why_by_guests_alone(fit))
    if fit.pending:
        say(f"Placed before them: {fit.pending_placed:,} of {plural(fit.pending, 'pending guest')}.")
    if fit.next is not None:
        say(f"The next one does not fit: {reason_line(fit.next)}.")
    elif fit.is_limit:
        say("Counting stopped at --max.")
    if output == "wide" and fit.per_host:
        say()
        rows = [[host, UNLIMITED if count is None else f"{count:,}"] for host, count in fit.per_host]
        print_table([("HOST", "left"), ("COPIES", "right")], rows)


def _why_by_guests_alone(fit: Fit) -> str:
    if fit.count is not None:
        return "It requests nothing, so only hosts' limits of guests count."
    free = sum(count is None for _, count in fit.per_host)
    which = "host that takes it has" if free == 1 else "hosts that take it have"
    return f"It requests nothing, so only hosts' limits of guests would bound it; {free:,} {which} none."


def _fit_as_data(fit: Fit) -> dict[str, object]:
    from hostler.model.plain_data import decision_as_data

    return {
        "guest": fit.guest.name,
        "fits": fit.count,  # null: any number
        "unlimited": fit.count is None,
        "stopped_at_max": fit.is_limit,
        "pending": fit.pending,
        "pending_placed": fit.pending_placed,
        "per_host": dict(fit.per_host),
        "next": None if fit.next is None else decision_as_data(fit.next, fit.guest.spec.namespace),
    }


def _show_sizing(sizing: Sizing, output: str) -> None:
    if output in ("json", "yaml"):
        import msgspec

        print_data(msgspec.to_builtins(sizing), output)
        return
    from hostler.cli.wording import plural

    if sizing.hosts is None:
        _show_misfits(sizing)
        return
    if not sizing.guests:
        say("No guest is pending, so no host is needed.")
        return
    verb = "needs" if sizing.guests == 1 else "need"
    say(f"{plural(sizing.guests, 'pending guest')} {verb} {plural(sizing.hosts, 'host')} like {sizing.like}.")
    if output == "wide":
        say(f"By totals alone at least {sizing.lower_bound:,}.")


def _show_misfits(sizing: Sizing) -> None:
    """Say which guests no number of hosts would hold, one line for each group, and what to do about them."""
    say(f"No number of hosts like {sizing.like} is enough. Even an empty one does not hold:")
    for misfit in sizing.misfits:
        more = f" and {misfit.guests - 1:,} more like it" if misfit.guests > 1 else ""
        say(printable(f"  {misfit.guest}{more}: {misfit.reason}"))
    for hint in dict.fromkeys(misfit.hint for misfit in sizing.misfits):
        note(hint, label="hint: ")
