"""``hostler capacity``: how many more of a guest fit, or how many hosts a set of guests needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.options import (
    FILE,
    config_option,
    examples,
    files_option,
    output_option,
    plugin_option,
    policy_option,
    seed_annotations_option,
    seed_option,
)
from hostler.cli.output.terminal import note, print_data, print_table, printable, progress, say

if TYPE_CHECKING:
    from hostler.model import Explanation
    from hostler.queries import Fit, FleetSize

__all__ = ["capacity"]

MOST = 1_000_000
LONG = 10_000  # guests from which on a progress bar is shown
LONG_COUNT = 100_000  # copies from which on one is shown
UNLIMITED = "unlimited"
LARGER = "choose a larger host, or leave these guests out"
HINTS = {  # by the code of the first reason why not even an empty host takes a guest
    "untolerated_taint": "add a toleration or choose another host",
    "no_device": "choose a host with such a device, or leave these guests out",
    "wrong_device_model": "accept another model or choose another host",
    "selector_mismatch": "relax the selector or choose another host",
    "affinity_mismatch": "relax the affinity or choose another host",
    "not_the_named_host": "choose the host that the guest names, or let it name none",
    "insufficient": LARGER,
    "insufficient_devices": LARGER,
    "no_topology_label": "choose a host with the label that guests are spread by",
}


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
@plugin_option()
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
    plugins: tuple[Path, ...],
    config: str,
    seed: int,
    seed_annotations: bool,
    output: str,
) -> None:
    """Count how many more of a guest fit, or how many hosts a set of guests needs.

    With --guest, the pending guests of the files are placed first, then copies of that guest until one is rejected. A
    guest that requests nothing is bound only by the hosts' limits of guests; without any, the answer is "unlimited".
    With --hosts-like, the pending guests of the files are placed on an empty fleet of hosts like that one, and the
    smallest number of them is found on which all fit; the exit code is 1 when no number would do. Both by real
    placements under the policy; no guest is evicted, and --hosts-like ignores quotas.
    """
    if bool(guest_file) == bool(hosts_like):
        raise click.UsageError("give either --guest FILE or --hosts-like HOST")
    if guest_name and not guest_file:
        raise click.UsageError("--guest-name needs --guest FILE")
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        from hostler.cli.inputs.file_input import read_guest, read_inputs
        from hostler.queries import Fit, count_copies, is_pending, size_fleet

        guest = None if hosts_like else read_guest(guest_file, guest_name, seed_annotations=seed_annotations)
        inputs = read_inputs(
            files,
            policy=policy,
            config=config,
            seed=seed,
            seed_annotations=seed_annotations,
            more_specs=(guest.spec,) if guest is not None else (),
            plugins=plugins,
        )
        answer: Fit | FleetSize
        if guest is not None:
            compiled.announce()
            with progress("placing copies", None, is_long=most > LONG_COUNT) as advance:
                answer = count_copies(inputs, guest, most=most, advance=advance)
        else:
            pending = sum(map(is_pending, inputs.guests))
            if pending:
                compiled.announce()
            with progress("trying numbers of hosts", None, is_long=pending > LONG) as advance:
                answer = size_fleet(inputs, hosts_like, advance=advance)
    if isinstance(answer, Fit):
        _show_fit(answer, output)
        return
    _show_size(answer, output)
    if answer.misfits:
        ctx.exit(1)


def _show_fit(fit: Fit, output: str) -> None:
    if output in ("json", "yaml"):
        print_data(_fit_as_data(fit), output)
        return
    from hostler.cli.output.decision_texts import plural, reason_line, request_text
    from hostler.queries import display_name

    name = f"{display_name(fit.guest)} ({request_text(fit.guest.spec)})"
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


def _show_size(size: FleetSize, output: str) -> None:
    if output in ("json", "yaml"):
        print_data(_size_as_data(size), output)
        return
    from hostler.cli.output.decision_texts import plural

    if size.hosts is None:
        _show_misfits(size)
        return
    if not size.guests:
        say("No guest is pending, so no host is needed.")
        return
    verb = "needs" if size.guests == 1 else "need"
    say(f"{plural(size.guests, 'pending guest')} {verb} {plural(size.hosts, 'host')} like {size.like}.")
    if output == "wide":
        say(f"By totals alone at least {size.lower_bound:,}.")


def _size_as_data(size: FleetSize) -> dict[str, object]:
    from hostler.queries import display_name

    misfits = [(one, *_misfit_texts(one.explanation)) for one in size.misfits]
    return {
        "like": size.like,
        "guests": size.guests,
        "hosts": size.hosts,
        "lower_bound": size.lower_bound,
        "misfits": [
            {"guest": display_name(one.guest), "guests": one.guests, "reason": reason, "hint": hint}
            for one, reason, hint in misfits
        ],
    }


def _show_misfits(size: FleetSize) -> None:
    """Say which guests no number of hosts would hold, one line for each group, and what to do about them."""
    from hostler.queries import display_name

    say(f"No number of hosts like {size.like} is enough. Even an empty one does not hold:")
    hints: dict[str, None] = {}
    for misfit in size.misfits:
        reason, hint = _misfit_texts(misfit.explanation)
        hints[hint] = None
        more = f" and {misfit.guests - 1:,} more like it" if misfit.guests > 1 else ""
        say(printable(f"  {display_name(misfit.guest)}{more}: {reason}"))
    for hint in hints:
        note(hint, label="hint: ")


def _misfit_texts(explanation: Explanation) -> tuple[str, str]:
    """Return why the only host rejects a guest, and what to do about the first reason."""
    from hostler.cli.output.decision_texts import failure_text, reason_line

    failures = explanation.verdicts[0].failures if explanation.verdicts else ()
    if not failures:
        return reason_line(explanation.decision), "a policy that asks outside cannot be sized"
    return "; ".join(map(failure_text, failures)), HINTS.get(failures[0].reason.code, "choose another host")
