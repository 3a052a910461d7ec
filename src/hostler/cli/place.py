"""``hostler place``: where each guest goes, and for those that go nowhere the reason in one line."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hostler.cli.options import (
    FILE,
    budgets_option,
    config_option,
    examples,
    files_option,
    output_option,
    plugin_option,
    policy_option,
    preempt_option,
    seed_annotations_option,
    seed_option,
)
from hostler.cli.output.terminal import Column, note, print_data, print_table, progress, say, say_parts

if TYPE_CHECKING:
    from hostler.cli.inputs.file_input import FileInput
    from hostler.model import Decision, Guest, Policy
    from hostler.model.policies import BudgetRule
    from hostler.queries import Eviction, OverfullHost, Placement, PlacementSummary, ResourceShare

__all__ = ["place"]

LONG = 20_000  # guests from which on a progress bar is shown
EVICTIONS_ARE_OFF = "evictions are off: --preempt lets guests of higher priority evict others"


@click.command(
    epilog=examples(
        "hostler place -f fleet.yaml -f guests.yaml",
        "hostler place -f fleet.yaml --policy pack -o wide",
        "hostler place -f fleet.yaml --preempt --budgets strict",
        "kubectl get nodes,pods,pdb,ns,svc,rs,priorityclasses -A -o json | hostler place -f -",
        "hostler place -f fleet.yaml -o json > placed.json",
    ),
    short_help="Place guests on hosts, both from files.",
)
@files_option()
@policy_option()
@plugin_option()
@config_option()
@seed_option()
@preempt_option()
@budgets_option()
@seed_annotations_option()
@output_option("table", "wide", "json", "yaml")
@click.option(
    "--journal", metavar="FILE", type=FILE, default="", help="Record the run, for 'hostler journal' and 'explain'."
)
@click.pass_context
def place(
    ctx: click.Context,
    files: tuple[str, ...],
    policy: str,
    plugins: tuple[Path, ...],
    config: str,
    seed: int,
    preempt: bool,
    budgets: BudgetRule | None,
    seed_annotations: bool,
    output: str,
    journal: str,
) -> None:
    """Place guests on hosts, both from files.

    Guests that already have a host count as placed and stay there; with --preempt, some may be evicted and leave. The
    exit code is 1 when a guest was not placed. JSON and YAML output is a fleet with the placed guests: it can be given
    to -f again.
    """
    if budgets and not preempt:
        raise click.UsageError("--budgets needs --preempt")
    from hostler.cli.kernels import kernels

    is_data = output in ("json", "yaml")
    with kernels() as compiled:
        import msgspec

        from hostler.cli.inputs.file_input import read_inputs
        from hostler.queries import find_overfull_hosts, with_preemption

        inputs = read_inputs(
            files, policy=policy, config=config, seed=seed, seed_annotations=seed_annotations, plugins=plugins
        )
        policies = with_preemption(inputs.policies, is_on=preempt, budgets=budgets)
        evicting = () if is_data or preempt else with_preemption(inputs.policies, is_on=True)
        inputs = msgspec.structs.replace(inputs, policies=policies)
        compiled.announce()
        placement = _place(inputs, journal, evicting, with_messages=is_data)
    if placement.message_limit is not None:
        from hostler.cli.output.decision_texts import plural

        shapes = plural(placement.message_limit, "shape")
        note(f"'message' is left out of all but {shapes} of pods that fit nowhere; 'explain' has it")
    if is_data:
        print_data(_as_data(inputs, placement, preempt=preempt), output)
    else:
        for one in find_overfull_hosts(inputs):
            note(_overfull_line(one))
        _print(inputs, placement, is_wide=output == "wide")
        if placement.would_evict:
            note(EVICTIONS_ARE_OFF)
    if not all(guest.host for guest in placement.guests):
        ctx.exit(1)


def _place(inputs: FileInput, journal: str, evicting: tuple[Policy, ...], *, with_messages: bool) -> Placement:
    """Place the guests of the input, with a progress bar if there are many; write a journal if one is wanted."""
    from hostler.cli.files import atomic_file
    from hostler.queries import is_pending, place_guests

    pending = sum(map(is_pending, inputs.guests))
    with (
        atomic_file(journal) if journal else nullcontext() as write,
        progress("placing", pending, is_long=pending > LONG) as advance,
    ):
        return place_guests(inputs, journal=write, with_messages=with_messages, evicting=evicting, advance=advance)


def _overfull_line(overfull: OverfullHost) -> str:
    from hostler.cli.output.decision_texts import amount_text

    held, limit = (amount_text(overfull.resource, amount) for amount in (overfull.held, overfull.limit))
    return f"host {overfull.host} holds more {overfull.resource} than it may give: {held} of {limit}"


def _print(inputs: FileInput, placement: Placement, *, is_wide: bool) -> None:
    from hostler.cli.output.decision_texts import number_text, reason_line, request_text
    from hostler.queries import display_name, is_pending

    was_pending = {guest.uid: is_pending(guest) for guest in inputs.guests}
    shown = [
        (guest, placement.decisions.get(guest.uid)) for guest in placement.guests if is_wide or was_pending[guest.uid]
    ]
    has_devices = any(guest.on_devices for guest, _ in shown)
    reasons = ["" if guest.host or decision is None else reason_line(decision) for guest, decision in shown]
    has_reasons = any(reasons)
    columns: list[Column] = [("GUEST", "left"), ("HOST", "left")]
    columns += [("DEVICES", "left")] if has_devices else []
    columns += [("SCORE", "right"), ("FEASIBLE", "right"), ("REQUESTS", "left")] if is_wide else []
    columns += [("REASON", "left")] if has_reasons else []

    def row(guest: Guest, decision: Decision | None, reason: str) -> list[str]:
        cells = [display_name(guest), guest.host or "-"]
        if has_devices:
            cells.append(",".join(map(str, guest.on_devices)))
        if is_wide:
            was_there = not was_pending[guest.uid]
            feasible = "" if decision is None else f"{decision.feasible}/{decision.hosts}"
            cells += ["" if decision is None else number_text(decision.total), feasible]
            cells.append(request_text(guest.spec) + (" (already there)" if was_there else ""))
        if has_reasons:
            cells.append(reason)
        return cells

    if shown:
        print_table(columns, [row(*one, reason) for one, reason in zip(shown, reasons, strict=True)])
        say()
    if placement.evicted:
        _print_evicted(placement.evicted)
    say_parts(_summary_line(placement.summary, inputs.policy.name))
    if not placement.decisions:
        say("nothing to place" + ("" if is_wide or not placement.guests else "; -o wide shows all guests"))


def _print_evicted(evicted: tuple[Eviction, ...]) -> None:
    columns: list[Column] = [("EVICTED", "left"), ("FROM", "left"), ("FOR", "left"), ("WHY", "left")]

    def name(one: Eviction) -> str:
        return one.guest if one.namespace == "default" else f"{one.namespace}/{one.guest}"

    print_table(columns, [[name(one), one.host, one.preemptor or "-", one.why] for one in evicted])
    say()


def _summary_line(summary: PlacementSummary, policy: str) -> str:
    from hostler.cli.output.decision_texts import plural

    counts = [f"{summary.placed:,} placed"]
    counts += [f"{summary.already_placed:,} already placed"] if summary.already_placed else []
    counts.append(f"{summary.not_placed:,} not placed")
    counts += [f"{summary.evicted:,} evicted"] if summary.evicted else []
    used = f"{summary.hosts_used:,} of {plural(summary.hosts, 'host')} used"
    return (
        f"{plural(summary.guests, 'guest')}: {', '.join(counts)}; {used}; "
        f"cpu {_percent(summary.cpu)}, memory {_percent(summary.memory)}; policy {policy}"
    )


def _percent(share: ResourceShare) -> str:
    return "-" if share.percent is None else f"{share.percent:.0f}%"


def _as_data(inputs: FileInput, placement: Placement, *, preempt: bool) -> dict[str, object]:
    """Return a fleet with decisions and summary, which ``-f`` accepts again."""
    import msgspec

    from hostler.config import write_fleet
    from hostler.model.plain_data import decision_as_data

    data = write_fleet(
        inputs.hosts,
        placement.guests,
        policy=inputs.policy.name,
        policies=inputs.declared,
        tenancy=placement.tenancy,
    )
    namespaces = {guest.uid: guest.spec.namespace for guest in placement.guests}
    data["decisions"] = [
        {
            **decision_as_data(decision, namespaces[uid]),
            **({"message": placement.messages[uid]} if uid in placement.messages else {}),
        }
        for uid, decision in placement.decisions.items()
    ]
    if preempt:
        data["evicted"] = msgspec.to_builtins(placement.evicted)
        data["nominated"] = msgspec.to_builtins(placement.nominated)
    summary: dict[str, object] = msgspec.to_builtins(placement.summary)
    for name in ("cpu", "memory"):
        share: ResourceShare = getattr(placement.summary, name)
        percent = share.percent
        summary[name] = {
            "used": share.used,
            "total": share.total,
            "percent": None if percent is None else round(percent, 1),
        }
    data["summary"] = summary
    return data
