"""``hostler place``: where each guest goes, and for those that go nowhere the reason in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hostler.cli.options import (
    FILE,
    budgets_option,
    config_option,
    examples,
    files_option,
    output_option,
    policy_option,
    preempt_option,
    seed_annotations_option,
    seed_option,
)
from hostler.cli.terminal import Column, note, print_data, print_table, say, say_parts

if TYPE_CHECKING:
    from hostler.cli.inputs import Budgets
    from hostler.cli.placement import Placement, Share, Summary
    from hostler.cli.preemptions import Eviction
    from hostler.model import Decision, Guest

__all__ = ["place"]

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
    config: str,
    seed: int,
    preempt: bool,
    budgets: Budgets | None,
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

        from hostler.cli.inputs import read_inputs, with_preemption
        from hostler.cli.placement import overfull_hosts, place_all

        inputs = read_inputs(files, policy=policy, config=config, seed_annotations=seed_annotations)
        policies = with_preemption(inputs.policies, is_on=preempt, budgets=budgets or "")
        evicting = () if is_data or preempt else with_preemption(inputs.policies, is_on=True)
        inputs = msgspec.structs.replace(inputs, policies=policies)
        placement = place_all(inputs, compiled, seed=seed, journal=journal, with_messages=is_data, evicting=evicting)
    if is_data:
        print_data(_as_data(placement, preempt=preempt), output)
    else:
        for line in overfull_hosts(inputs):
            note(line)
        _print(placement, is_wide=output == "wide")
        if placement.would_evict:
            note(EVICTIONS_ARE_OFF)
    if not all(guest.host for guest in placement.guests):
        ctx.exit(1)


def _print(placement: Placement, *, is_wide: bool) -> None:
    from hostler.cli.runs import is_pending, shown_name
    from hostler.cli.wording import number_text, reason_line, request_text

    was_pending = {guest.uid: is_pending(guest) for guest in placement.inputs.fleet.guests}
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
        cells = [shown_name(guest), guest.host or "-"]
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
    say_parts(_summary_line(placement.summary, placement.inputs.policy.name))
    if not placement.decisions:
        say("nothing to place" + ("" if is_wide or not placement.guests else "; -o wide shows all guests"))


def _print_evicted(evicted: tuple[Eviction, ...]) -> None:
    columns: list[Column] = [("EVICTED", "left"), ("FROM", "left"), ("FOR", "left"), ("WHY", "left")]

    def name(one: Eviction) -> str:
        return one.guest if one.namespace == "default" else f"{one.namespace}/{one.guest}"

    print_table(columns, [[name(one), one.host, one.preemptor or "-", one.why] for one in evicted])
    say()


def _summary_line(summary: Summary, policy: str) -> str:
    from hostler.cli.wording import plural

    counts = [f"{summary.placed:,} placed"]
    counts += [f"{summary.already_placed:,} already placed"] if summary.already_placed else []
    counts.append(f"{summary.not_placed:,} not placed")
    counts += [f"{summary.evicted:,} evicted"] if summary.evicted else []
    used = f"{summary.hosts_used:,} of {plural(summary.hosts, 'host')} used"
    return (
        f"{plural(summary.guests, 'guest')}: {', '.join(counts)}; {used}; "
        f"cpu {_percent(summary.cpu)}, memory {_percent(summary.memory)}; policy {policy}"
    )


def _percent(share: Share) -> str:
    return "-" if share.percent is None else f"{share.percent:.0f}%"


def _as_data(placement: Placement, *, preempt: bool) -> dict[str, object]:
    """Return a fleet with decisions and summary, which ``-f`` accepts again."""
    import msgspec

    from hostler.config import write_fleet
    from hostler.model.plain_data import decision_as_data

    inputs = placement.inputs
    data = write_fleet(
        inputs.fleet.hosts,
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
        share: Share = getattr(placement.summary, name)
        percent = share.percent
        summary[name] = {
            "used": share.used,
            "total": share.total,
            "percent": None if percent is None else round(percent, 1),
        }
    data["summary"] = summary
    return data
