"""``hostler vm plan`` and ``candidates``: what would be, with nothing changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.cli.control.connecting import There, connects
from hostler.cli.control.hints import NO_HOSTS
from hostler.cli.control.showing import output
from hostler.cli.control.vm_spec import FILES, read_wishes, spec_options, spec_words
from hostler.cli.options import examples
from hostler.cli.terminal import Column, note, print_data, print_table, printable, say
from hostler.cli.wording import plural

if TYPE_CHECKING:
    from hostler.control.api.shapes import Candidates, Plan, Victim
    from hostler.control.client import Client

__all__ = ["candidates", "plan"]

_FEW = 20  # names that are looked up one by one
_SHOWN = 5


@click.command(
    epilog=examples(
        "hostler vm plan -f vms.yaml",
        "hostler vm plan worker --count 16 --cpu 4 --memory 8Gi",
        "hostler vm plan -f vms.yaml --without-host node-3 --without-host node-4",
    ),
    short_help="Say where VMs would go, without creating them.",
)
@click.argument("name", metavar="[NAME]", required=False, default="")
@spec_options
@FILES
@click.option("--count", metavar="N", type=click.IntRange(1, 1000), default=1, help="So many equal ones.")
@click.option(
    "--without-host",
    "without_hosts",
    metavar="NAME",
    multiple=True,
    help="As if this host took nothing new; as often as wanted.",
)
@connects
@output
@click.pass_context
def plan(
    ctx: click.Context, /, there: There, name: str, files: tuple[str, ...], count: int, without_hosts: tuple[str, ...],
    output: str, **options: Any,  # noqa: ANN401 - those of spec_options
) -> None:  # fmt: skip
    """Say where VMs would go if they were created now, and who would be stopped for them.

    They are described as for 'hostler vm create'. Nothing is written. The exit code is 1 when one would not be placed.
    """
    from hostler.control.api.shapes import PlanAsked, PlanVm

    with there.open() as client:
        wishes = read_wishes(files, name or ("" if files else "vm"), spec_words(options), client.reach.project, 1)
        vms = [PlanVm(name=wish.name, project=wish.project, spec=wish.spec, count=count) for wish in wishes]
        found = client.vms.plan(PlanAsked(vms=vms, without_hosts=list(without_hosts)))
        taken = _taken(client, found) if name or files else []
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
    else:
        _print_plan(found, is_wide=output == "wide")
    if taken:
        more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
        note(f"there is such a VM already, so 'create' would be refused: {', '.join(taken[:_SHOWN])}{more}")
    if not all(one.host for one in found.placements):
        ctx.exit(1)


@click.command(
    epilog=examples(
        "hostler vm candidates --cpu 4 --memory 8Gi",
        "hostler vm candidates -f vm.yaml --strategy best_fit -o json",
    ),
    short_help="Show which hosts would take a VM, and why others would not.",
)
@spec_options
@FILES
@connects
@output
@click.pass_context
def candidates(
    ctx: click.Context, /, there: There, files: tuple[str, ...], output: str,
    **options: Any,  # noqa: ANN401 - those of spec_options
) -> None:  # fmt: skip
    """Show every host: those that would take such a VM with their scores, and the others with all reasons.

    Nothing is written. The exit code is 1 when no host would take it.
    """
    from hostler.control.api.shapes import CandidatesAsked
    from hostler.errors import InputError

    with there.open() as client:
        wishes = read_wishes(files, "vm", spec_words(options), client.reach.project, 1)
        if len(wishes) > 1:
            raise InputError(f"the files describe {len(wishes)} VMs", hint="name the file of one; 'plan' takes many")
        wish = wishes[0]
        found = client.vms.candidates(CandidatesAsked(spec=wish.spec, project=wish.project))
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
    else:
        _print_candidates(found, is_wide=output == "wide")
    if not found.chosen:
        ctx.exit(1)


def _taken(client: Client, found: Plan) -> list[str]:
    """Return the VMs of a plan whose names are taken: a plan asks for room, not for names."""
    names = {(one.project, one.name) for one in found.placements}
    if len(names) <= _FEW:
        there = [vm for project, name in sorted(names) for vm in client.vms.list(project=project, name=name)]
    else:
        there = [vm for project in sorted({project for project, _ in names}) for vm in client.vms.list(project=project)]
    return sorted(f"{vm.project}/{vm.name}" for vm in there if (vm.project, vm.name) in names)


def _print_plan(found: Plan, *, is_wide: bool) -> None:
    columns: list[Column] = [("VM", "left"), ("HOST", "left"), ("WHY NOT", "left")]
    rows = [[f"{one.project}/{one.name}", one.host or "-", one.why] for one in found.placements]
    print_table(columns, rows)
    evicted = [(victim, one) for one in found.placements for victim in one.evictions]
    if evicted:
        say()
        headings: list[Column] = [("STOPPED", "left"), ("ON", "left"), ("FOR", "left")]
        print_table(headings, [[_victim(v), v.host, f"{one.project}/{one.name}"] for v, one in evicted])
    placed = sum(one.host is not None for one in found.placements)
    say()
    say(f"{placed:,} of {plural(len(found.placements), 'VM')} would be placed, {len(evicted):,} stopped for them.")
    if is_wide:
        say(f"As of entry {found.seq} of the log.")


def _print_candidates(found: Candidates, *, is_wide: bool) -> None:
    from hostler.cli.kernels import kernels

    with kernels():  # before what imports the engine
        from hostler.cli.explain_lines import SHOWN, print_fitting, print_refusing
    fitting = [verdict for verdict in found.hosts if verdict.fits]
    refusing = [verdict for verdict in found.hosts if not verdict.fits]
    say(printable(f"{_would(found, len(fitting)) if found.hosts else NO_HOSTS}."))
    if found.evictions:
        names = ", ".join(map(_victim, found.evictions))
        say(printable(f"For it would be stopped: {names}."))
    if fitting:
        print_fitting(fitting, found.chosen or "", None if is_wide else SHOWN)
    if refusing:
        print_refusing(refusing, None if is_wide else SHOWN)


def _would(found: Candidates, fitting: int) -> str:
    """Say how many hosts would take a VM, and where it would go or why nowhere; a reason may count the hosts itself."""
    takers = f"{fitting:,} of {plural(len(found.hosts), 'host')} would take it"
    if found.chosen:
        return f"{takers}; it would go to {found.chosen}"
    if fitting:
        return f"{takers}, but it would wait: {found.why}" if found.why else takers
    return f"no host would take it: {found.why}" if found.why else takers


def _victim(victim: Victim) -> str:
    """Name who would be stopped; one whose project the key may not read has no name but what it is."""
    return f"{victim.project}/{victim.name}" if victim.project else victim.name
