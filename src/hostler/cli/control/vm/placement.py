"""Questions about placement: ``hostler vm explain``, ``queue``, ``plan`` and ``candidates``. Nothing is changed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hostler.cli.control.connection import CommandTarget, complete_vm, target_options
from hostler.cli.control.output import Field, age, output, show_list
from hostler.cli.control.resource_commands import all_projects_option, list_in_project
from hostler.cli.control.vm.create import FILES, spec_options, spec_words
from hostler.cli.options import examples
from hostler.cli.output.terminal import Column, note, print_data, print_table, printable, say
from hostler.model.explanation_texts import takers_text
from hostler.model.vocabulary import VM_WORDS, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hostler.cli.output.explanations import ShownExplanation
    from hostler.control.client import Client
    from hostler.control.schemas import Candidates, Plan, Planned, Victim, Vm, Waiting

__all__ = ["candidates", "explain", "plan", "queue"]


@click.command(
    epilog=examples(
        "hostler vm explain web-0", "hostler vm explain team-a/db -o wide", "hostler vm explain db -o json"
    ),
    short_help="Explain why a VM is on its host, or on none.",
)
@click.argument("vm", metavar="VM", shell_complete=complete_vm)
@target_options
@output
def explain(target: CommandTarget, vm: str, output: str) -> None:
    """Say why a VM is where it is or nowhere, what else would fit, and what would cure it.

    The hosts' verdicts are of this moment. A VM that runs is explained as if it were placed now: its own room counts as
    free, and its last move or start no longer matters. "Pinned" says what keeps it on one host. A stopped VM is
    explained as if it were started now. The words, and the object of -o json, are those of 'hostler explain'.
    """
    with target.open() as client:
        found = client.vms.find(vm, client.target.project)
        data = _decision(client, found)
    if output in ("json", "yaml"):
        print_data(data, output)
        return
    from hostler.cli.kernels import kernels

    with kernels():  # before what imports the engine
        from hostler.cli.explain import show_explained

        show_explained(_with_offline_parts(found, data), output)


def _decision(client: Client, vm: Vm) -> dict[str, Any]:
    """Return why a VM is where it is. Of one that is there, but not decided, there will be more to say soon."""
    from hostler.control.client.errors import ServerNotFoundError, StillUnderWayError

    try:
        return client.vms.decision(vm.id)
    except ServerNotFoundError:
        if vm.power == "absent":
            hint = f"'hostler vm get {vm.project}/{vm.name}' shows the progress"
            raise StillUnderWayError(f"{vm.project}/{vm.name} is being deleted", hint=hint) from None
        hint = "try again in a moment"
        raise StillUnderWayError(f"{vm.project}/{vm.name} is not decided yet", hint=hint) from None


def _with_offline_parts(vm: Vm, data: dict[str, Any]) -> ShownExplanation:
    """Return the explanation with what the offline command computes by itself."""
    from hostler.cli.output.explanations import ShownExplanation
    from hostler.control.vms.guests import guest_spec
    from hostler.control.vms.spec import size_of
    from hostler.model import Explanation, Guest

    data = {**data, "decision": {**data["decision"], "host": data["decision"].get("host") or ""}}
    explanation = msgspec.convert(data, Explanation)
    decision = explanation.decision
    guest = Guest(
        name=vm.name,
        uid=decision.uid,
        spec=guest_spec(vm.spec, vm.project, size_of(vm.spec)),
        host=decision.host,
        gang=f"{vm.project}/{vm.spec.gang}" if vm.spec.gang else "",
    )
    return ShownExplanation(
        guest=guest,
        explanation=explanation,
        was_bound=bool(decision.host),
        words=VM_WORDS,
        now="" if data.get("state") == "running" else data.get("now", ""),
        hint=data.get("hint", ""),
        made_way=data.get("made_way", ""),
        moved_for=data.get("moved_for", ""),
        if_started=data.get("if_started", False),
        if_placed_now=data.get("if_placed_now") or "",
        pinned=(data.get("pinned") or {}).get("text", ""),
    )


_FEW = 20  # names that are looked up one by one
_SHOWN = 5
_MOST_LINES = 20  # of a plan; one of more VMs is counted by host


@click.command(
    epilog=examples("hostler vm queue", "hostler vm queue -o json"), short_help="Show the VMs that wait, and why."
)
@all_projects_option
@target_options
@output
def queue(target: CommandTarget, all_projects: bool, output: str) -> None:
    """Show the VMs that wait for a place, and why.

    WHY is the reason of the last try, so long ago as TRIED says. A VM is tried again when a change could help it.
    'hostler vm explain' looks at the hosts as they are now.
    """
    fields: list[Field[Waiting]] = [
        Field("VM", lambda one: f"{one.project}/{one.name}"),
        Field("STATE", lambda one: one.state),
        Field("PRIORITY", lambda one: one.priority, "right"),
        Field("GANG", lambda one: one.gang, is_wide=True),
        Field("SINCE", lambda one: age(one.since), "right"),
        Field("TRIED", lambda one: age(one.tried_at), "right"),
        Field("WHY", lambda one: one.why),
    ]
    from hostler.control.schemas.texts import NO_VM_WAITS

    with target.open() as client:
        project = "" if all_projects else client.target.project
        found = list_in_project(client, project, client.vms.queue(project=project))
        show_list(found, fields, output, nothing=NO_VM_WAITS)
    if found and output in ("table", "wide"):
        note("WHY is of the last try; 'hostler vm explain NAME' looks at the hosts as they are now")


@click.command(
    epilog=examples(
        "hostler vm plan -f vms.yaml",
        "hostler vm plan worker --count 16 --cpu 4 --memory 8Gi",
        "hostler vm plan -f vms.yaml --without-host node-3 --without-host node-4",
    ),
    short_help="Show where VMs would be placed, without creating them.",
)
@click.argument("name", metavar="[NAME]", required=False, default="")
@spec_options
@FILES
@click.option("--count", metavar="N", type=click.IntRange(1, 1000), default=1, help="This many equal ones.")
@click.option(
    "--without-host",
    "without_hosts",
    metavar="NAME",
    multiple=True,
    help="As if this host were cordoned; may be repeated.",
)
@target_options
@output
@click.pass_context
def plan(
    ctx: click.Context, /, target: CommandTarget, name: str, files: tuple[str, ...], count: int,
    without_hosts: tuple[str, ...], output: str, **options: Any,  # noqa: ANN401 - those of spec_options
) -> None:  # fmt: skip
    """Say where VMs would go if they were created now, and who would be stopped for them.

    They are described as for 'hostler vm create'. Nothing is written. The exit code is 1 when one would not be placed.
    A plan of more than 20 VMs is counted by host; -o wide and -o json show every VM.
    """
    from hostler.control.client.vm_files import read_vm_requests
    from hostler.control.schemas import PlanAsked, PlanVm

    with target.open() as client:
        wishes = read_vm_requests(files, name or ("" if files else "vm"), spec_words(options), client.target.project, 1)
        vms = [PlanVm(name=wish.name, project=wish.project, spec=wish.spec, count=count) for wish in wishes]
        found = client.vms.plan(PlanAsked(vms=vms, without_hosts=list(without_hosts)))
        taken = _taken_names(client, found) if name or files else []
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
    else:
        _print_plan(found, is_wide=output == "wide")
    if taken:
        more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
        note(f"such a VM exists, so 'create' would be rejected: {', '.join(taken[:_SHOWN])}{more}")
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
@target_options
@output
@click.pass_context
def candidates(
    ctx: click.Context, /, target: CommandTarget, files: tuple[str, ...], output: str,
    **options: Any,  # noqa: ANN401 - those of spec_options
) -> None:  # fmt: skip
    """Show every host: those that would take the VM with their scores, and the others with all reasons.

    Nothing is written. The exit code is 1 if no host would take it.
    """
    from hostler.control.client.vm_files import read_vm_requests
    from hostler.control.schemas import CandidatesAsked
    from hostler.errors import InputError

    with target.open() as client:
        wishes = read_vm_requests(files, "vm", spec_words(options), client.target.project, 1)
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


def _taken_names(client: Client, found: Plan) -> list[str]:
    """Return the VMs of a plan whose names are taken: a plan ignores names."""
    names = {(one.project, one.name) for one in found.placements}
    if len(names) <= _FEW:
        target = [vm for project, name in sorted(names) for vm in client.vms.list(project=project, name=name)]
    else:
        target = [
            vm for project in sorted({project for project, _ in names}) for vm in client.vms.list(project=project)
        ]
    return sorted(f"{vm.project}/{vm.name}" for vm in target if (vm.project, vm.name) in names)


def _print_plan(found: Plan, *, is_wide: bool) -> None:
    is_short = len(found.placements) > _MOST_LINES and not is_wide
    if is_short:
        _print_counts(found)
    else:
        columns: list[Column] = [("VM", "left"), ("HOST", "left"), ("WHY NOT", "left")]
        print_table(columns, [[f"{one.project}/{one.name}", one.host or "-", one.why] for one in found.placements])
    evicted = [(victim, one) for one in found.placements for victim in one.evictions]
    if evicted:
        say()
        shown = evicted[:_MOST_LINES] if is_short else evicted
        _print_victims(shown)
        if len(shown) < len(evicted):
            say(f"… and {len(evicted) - len(shown):,} more; -o wide shows all")
    placed = sum(one.host is not None for one in found.placements)
    say()
    moved = sum(bool(victim.moves_to) for victim, _ in evicted)
    moves = f" and {moved:,} moved" if moved else ""
    of_all = f"{placed:,} of {plural(len(found.placements), 'VM')} would be placed"
    say(f"{of_all}, {len(evicted) - moved:,} stopped{moves} for them.")
    if is_short:
        say("-o wide shows every VM.")
    if is_wide:
        say(f"As of entry {found.seq} of the log.")


def _print_victims(victims: Sequence[tuple[Victim, Planned]]) -> None:
    """Write which VMs would be stopped and which would move, and for which VM."""
    stopped = [[_victim(v), v.host, f"{one.project}/{one.name}"] for v, one in victims if not v.moves_to]
    moved = [[_victim(v), v.host, v.moves_to, f"{one.project}/{one.name}"] for v, one in victims if v.moves_to]
    if stopped:
        print_table([("STOPPED", "left"), ("ON", "left"), ("FOR", "left")], stopped)
    if moved:
        print_table([("MOVED", "left"), ("FROM", "left"), ("TO", "left"), ("FOR", "left")], moved)


def _print_counts(found: Plan) -> None:
    """Write how many VMs of a large plan go to each host, and how many go to none, by reason."""
    hosts = Counter(one.host for one in found.placements if one.host is not None)
    reasons = Counter(one.why for one in found.placements if one.host is None)
    rows = [[host, f"{hosts[host]:,}", ""] for host in sorted(hosts)]
    if len(rows) > _MOST_LINES:
        rest = sum(hosts[host] for host in sorted(hosts)[_MOST_LINES:])
        rows[_MOST_LINES:] = [[f"{plural(len(rows) - _MOST_LINES, 'more host')}", f"{rest:,}", ""]]
    rows += [["-", f"{count:,}", why] for why, count in reasons.most_common(_MOST_LINES)]
    if len(reasons) > _MOST_LINES:
        rest = reasons.total() - sum(count for _, count in reasons.most_common(_MOST_LINES))
        rows.append(["-", f"{rest:,}", "other reasons"])
    print_table([("HOST", "left"), ("VMS", "right"), ("WHY NOT", "left")], rows)


def _print_candidates(found: Candidates, *, is_wide: bool) -> None:
    from hostler.cli.kernels import kernels

    with kernels():  # before what imports the engine
        from hostler.cli.output.explanations import SHOWN, print_fitting, print_rejecting
    fitting = [verdict for verdict in found.hosts if verdict.fits]
    refusing = [verdict for verdict in found.hosts if not verdict.fits]
    from hostler.control.schemas.texts import NO_HOSTS

    say(printable(f"{_would(found, len(fitting)) if found.hosts else NO_HOSTS}."))
    stopped = [_victim(one) for one in found.evictions if not one.moves_to]
    moved = [f"{_victim(one)} to {one.moves_to}" for one in found.evictions if one.moves_to]
    for what, names in (("stopped", stopped), ("moved", moved)):
        if names:
            say(printable(f"For it would be {what}: {', '.join(names)}."))
    if fitting:
        print_fitting(fitting, found.chosen or "", None if is_wide else SHOWN)
    if refusing:
        print_rejecting(refusing, None if is_wide else SHOWN, VM_WORDS)


def _would(found: Candidates, fitting: int) -> str:
    """Describe how many hosts would take a VM, and where it would be placed or why nowhere."""
    takers = takers_text(fitting, len(found.hosts))
    if found.chosen:
        return f"{takers}; it would go to {found.chosen}"
    if fitting:
        return f"{takers}, but it would wait: {found.why}" if found.why else takers
    return f"no host would take it: {found.why}" if found.why else takers


def _victim(victim: Victim) -> str:
    """Return the name of a VM that would be preempted, or a description if the key may not read it."""
    return f"{victim.project}/{victim.name}" if victim.project else victim.name
