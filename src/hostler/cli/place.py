"""``hostler place``: where each guest goes, and for those that go nowhere the reason in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hostler.cli.options import FILE, config_option, examples, files_option, output_option, policy_option, seed_option
from hostler.cli.terminal import Column, note, print_data, print_table, say, say_parts

if TYPE_CHECKING:
    from hostler.cli.placement import Placement, Share, Summary
    from hostler.model import Decision, Guest

__all__ = ["place"]


@click.command(
    epilog=examples(
        "hostler place -f fleet.yaml -f guests.yaml",
        "hostler place -f fleet.yaml --policy pack -o wide",
        "kubectl get nodes,pods -A -o json | hostler place -f -",
        "hostler place -f fleet.yaml -o json > placed.json",
    ),
    short_help="Place guests on hosts, both from files.",
)
@files_option()
@policy_option()
@config_option()
@seed_option()
@output_option("table", "wide", "json", "yaml")
@click.option(
    "--journal", metavar="FILE", type=FILE, default="", help="Record the run, for 'hostler journal' and 'explain'."
)
@click.pass_context
def place(
    ctx: click.Context, files: tuple[str, ...], policy: str, config: str, seed: int, output: str, journal: str
) -> None:
    """Place guests on hosts, both from files.

    Guests that already have a host count as placed and stay there. The exit code is 1 when a guest was not placed.
    JSON and YAML output is a fleet with the placed guests: it can be given to -f again.
    """
    from hostler.cli.kernels import kernels

    with kernels() as compiled:
        from hostler.cli.inputs import read_inputs
        from hostler.cli.placement import overfull_hosts, place_all

        inputs = read_inputs(files, policy=policy, config=config)
        placement = place_all(inputs, compiled, seed=seed, journal=journal)
    if output in ("json", "yaml"):
        print_data(_as_data(placement), output)
    else:
        for line in overfull_hosts(inputs):
            note(line)
        _print(placement, is_wide=output == "wide")
    if placement.summary.not_placed:
        ctx.exit(1)


def _print(placement: Placement, *, is_wide: bool) -> None:
    from hostler.cli.runs import is_pending, shown_name
    from hostler.cli.wording import number_text, reason_line, request_text

    before = placement.inputs.fleet.guests
    shown = [
        (guest, placement.decisions.get(guest.uid))
        for guest, was in zip(placement.guests, before, strict=True)
        if is_wide or is_pending(was)
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
            was_there = decision is None
            feasible = "" if decision is None else f"{decision.feasible}/{decision.hosts}"
            cells += ["" if decision is None else number_text(decision.total), feasible]
            cells.append(request_text(guest.spec) + (" (already there)" if was_there else ""))
        if has_reasons:
            cells.append(reason)
        return cells

    if shown:
        print_table(columns, [row(*one, reason) for one, reason in zip(shown, reasons, strict=True)])
        say()
    say_parts(_summary_line(placement.summary, placement.inputs.policy.name))
    if not placement.decisions:
        say("nothing to place" + ("" if is_wide or not before else "; -o wide shows all guests"))


def _summary_line(summary: Summary, policy: str) -> str:
    from hostler.cli.wording import plural

    counts = [f"{summary.placed:,} placed"]
    counts += [f"{summary.already_placed:,} already placed"] if summary.already_placed else []
    counts.append(f"{summary.not_placed:,} not placed")
    used = f"{summary.hosts_used:,} of {plural(summary.hosts, 'host')} used"
    return (
        f"{plural(summary.guests, 'guest')}: {', '.join(counts)}; {used}; "
        f"cpu {_percent(summary.cpu)}, memory {_percent(summary.memory)}; policy {policy}"
    )


def _percent(share: Share) -> str:
    return "-" if share.percent is None else f"{share.percent:.0f}%"


def _as_data(placement: Placement) -> dict[str, object]:
    """Return a fleet with decisions and summary, which ``-f`` accepts again."""
    import msgspec

    from hostler.config import write_fleet

    inputs = placement.inputs
    data = write_fleet(inputs.fleet.hosts, placement.guests, policy=inputs.policy.name, policies=inputs.declared)
    data["decisions"] = [decision_as_data(decision) for decision in placement.decisions.values()]
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


def decision_as_data(decision: Decision) -> dict[str, object]:
    """Return a decision with all its keys, also those that are empty."""
    import msgspec

    data: dict[str, object] = msgspec.to_builtins(decision)
    whole: dict[str, object] = {name: data.get(name, getattr(decision, name)) for name in decision.__struct_fields__}
    whole["host"] = decision.host or None
    if isinstance(decision.total, float):
        whole["total"] = decision.total + 0.0  # never -0.0
    return whole
