"""Commands that change hosts: cordon, drain, labels, capacity, credentials, and irreversible actions.

Commands for several hosts look up all of them first. If a host is rejected, the changes before it are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from hostler.cli.control.connection import CommandTarget, complete_host, fleet_target_options
from hostler.cli.control.host.lists import act_on_each, check_all_there, host_state, show_changed, taint_text
from hostler.cli.control.options import (
    as_schema,
    confirm,
    confirm_by_name,
    read_amounts,
    read_changes,
    read_patch,
    yes_option,
)
from hostler.cli.control.output import labels_text, shape_output, show_result
from hostler.cli.control.progress import WaitingCommand, progress_line, report_if_interrupted, wait_option
from hostler.cli.options import examples
from hostler.cli.output.decision_texts import readable_amount
from hostler.cli.output.terminal import note, printable, say
from hostler.errors import HostlerError, InputError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.control.client.client import HostVerb
    from hostler.control.schemas import Host

__all__ = [
    "allow_teardown", "confirm_dead", "cordon", "delete", "drain", "edit", "force_offline", "label", "revoke", "rotate",
    "uncordon", "undrain",
]  # fmt: skip


@click.command(
    cls=WaitingCommand,
    epilog=examples("hostler host drain node-3", "hostler host drain node-3 --wait 10m"),
    short_help="Move VMs away from hosts.",
)
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=complete_host)
@wait_option("Wait until the hosts are empty")
@fleet_target_options
@shape_output
def drain(target: CommandTarget, hosts: tuple[str, ...], wait_s: int | None, output: str) -> None:
    """Move VMs away from hosts, a few at a time. The hosts take no new VMs.

    VMs that cannot leave stay, for example if no other host has room; 'hostler host get' lists them with the reason.
    --wait reports each VM that left or cannot leave. The exit code is 4 if only VMs are left that cannot leave, and 3
    if the time is over. The drain tries them again now and then, and at once if you run the command again.
    """
    from hostler.control.client.drains import follow_drain, vms_on

    is_table = output == "table"

    def show(found: list[Host]) -> None:
        show_changed(found, output, _empty_text, with_stuck=wait_s is None)

    with target.open() as client:
        # Read before the drain begins, so that a VM that leaves at once is reported too.
        before = [vms_on(client, client.hosts.get(host)) for host in hosts] if wait_s is not None else []
        found = act_on_each(client, hosts, lambda host: client.hosts.act(host, "drain"), show)
        failures: list[HostlerError] = []
        if wait_s is not None:
            tell = (lambda line: say(printable(line))) if is_table else (lambda line: None)
            until = time.monotonic() + wait_s
            with report_if_interrupted(lambda: _goes_on(hosts)), progress_line() as progress:
                pairs = zip(found, before, strict=True)
                ends = [follow_drain(client, host, here, until, tell, progress.show) for host, here in pairs]
            found = [host for host, _ in ends]
            failures = [error for _, error in ends if error is not None]
    show(found)
    if failures:
        raise min(failures, key=lambda error: -error.exit_code)  # what cannot be beats what may still come true


def _empty_text(host: Host) -> str:
    state = f"{host_state(host)}, {plural(host.vms, 'VM') if host.vms else 'empty'}"
    return f"{state}; VMs leave it when it is heard again" if host.vms and host.state != "ready" else state


def _goes_on(hosts: tuple[str, ...]) -> str:
    how = f"'hostler host get {hosts[0]}' shows the progress, 'hostler host undrain {' '.join(hosts)}' ends it"
    return f"the draining of {', '.join(hosts)} continues; {how}"


@click.command(
    epilog=examples(
        "hostler host edit node-3 --overcommit cpu=1.5 --reserve cpu=1,memory=4Gi",
        "hostler host edit node-3 --overcommit ''",
        "hostler host edit node-3 --taint gpu=yes:NoSchedule",
    ),
    short_help="Change how much of a host VMs may use.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@click.option(
    "--overcommit",
    metavar="RATIOS",
    default=None,
    help="A factor for what it has: cpu=1.5. '' removes it.",
)
@click.option(
    "--reserve",
    metavar="AMOUNTS",
    default=None,
    help="What VMs may not use: cpu=1,memory=4Gi. '' removes it.",
)
@click.option(
    "--taint",
    "taints",
    metavar="KEY[=VALUE][:EFFECT]",
    multiple=True,
    help="A taint, which keeps away VMs that do not tolerate it; may be repeated. '' removes all.",
)
@fleet_target_options
@shape_output
def edit(
    target: CommandTarget, host: str, overcommit: str | None, reserve: str | None, taints: tuple[str, ...], output: str
) -> None:
    """Change what VMs may use of a host: its size, times overcommit, less reserve.

    Each option replaces the old value as a whole.

    VMs on the host stay, even if they have more than that now.
    """
    from hostler.control.schemas import HostEdit

    words: dict[str, Any] = {}
    for name, given in (("overcommit", overcommit), ("reserve", reserve)):
        if given is not None:
            words[name] = read_amounts(f"--{name}", [given])
    if taints:
        words["taints"] = [_taint(one) for one in taints if one]
    if not words:
        raise InputError("nothing to change", hint="give --overcommit, --reserve or --taint")
    with target.open() as client:
        after = client.hosts.edit(host, as_schema(HostEdit, words))
    marks = ", ".join(taint_text(one) for one in after.taints)
    show_result(after, output, f"{after.name}: VMs may have {_may_give(after)}{f'; taints: {marks}' if marks else ''}")


def _taint(word: str) -> dict[str, str]:
    """Parse a taint in the form of kubectl; without an effect it is NoSchedule."""
    from hostler.model.selectors import Effect

    known = get_args(Effect)
    pair, colon, effect = word.partition(":")
    key, _, value = pair.partition("=")
    if not key or (colon and effect not in known):
        hint = f"write --taint KEY=VALUE:EFFECT, with one of {', '.join(known)}"
        raise InputError(f"--taint {word[:80]!r} is not a taint", hint=hint)
    return {"key": key, "value": value, "effect": effect or "NoSchedule"}


def _may_give(host: Host) -> str:
    room = (("cpu", host.may_give.cpu_millis), ("memory", host.may_give.memory_bytes))
    return ", ".join(f"{name} {readable_amount(name, amount)}" for name, amount in room)


@click.command(epilog=examples("hostler host rotate node-3"), short_help="Give the agents of hosts a new credential.")
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=complete_host)
@fleet_target_options
def rotate(target: CommandTarget, hosts: tuple[str, ...]) -> None:
    """Give the agents of hosts a new credential. Each agent gets it at its next heartbeat.

    The old credential stays valid until 5 minutes after the first use of the new one. If others may have it, revoke it.
    """
    with target.open() as client:
        check_all_there(client, hosts)
        for host in hosts:
            found = client.hosts.rotate_credential(host)
            say(printable(f"{found.name}: gets a new credential at its next heartbeat"))


@click.command(epilog=examples("hostler host revoke node-3"), short_help="Revoke the credentials of hosts' agents.")
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=complete_host)
@yes_option()
@fleet_target_options
def revoke(target: CommandTarget, hosts: tuple[str, ...], yes: bool) -> None:
    """Revoke the credentials of hosts' agents at once. Asks first on a terminal.

    Their VMs keep running, and the hosts count as offline until an agent joins again, with a new token for that host.
    """
    confirm(f"Revoke the agent credentials of {', '.join(hosts)}?", is_sure=yes)
    with target.open() as client:
        check_all_there(client, hosts)
        for host in hosts:
            found = client.hosts.revoke_credential(host)
            say(printable(f"{found.name}: {host_state(found)}, its agent's credential is revoked"))
            note(f"to let it join again: (umask 077; hostler token create --host {found.name} > token)")


F = TypeVar("F", bound=Callable[..., Any])


def _command(verb: HostVerb, summary: str, text: str) -> click.Command:
    """Make the command of one reversible verb."""

    @click.command(verb, help=text, epilog=examples(f"hostler host {verb} node-3"), short_help=summary)
    @click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=complete_host)
    @fleet_target_options
    @shape_output
    def run(target: CommandTarget, hosts: tuple[str, ...], output: str) -> None:
        def show(found: list[Host]) -> None:
            show_changed(found, output, host_state)

        with target.open() as client:
            show(act_on_each(client, hosts, lambda host: client.hosts.act(host, verb), show))

    return run


cordon = _command("cordon", "Keep new VMs off hosts.", "Keep new VMs off hosts. Running VMs stay.")
uncordon = _command("uncordon", "Allow new VMs on hosts again.", "Allow new VMs on hosts again.")
undrain = _command("undrain", "Stop draining hosts.", "Stop draining hosts; they take VMs again.")


@click.command(
    epilog=examples("hostler host label node-3 disk=ssd", "hostler host label node-3 disk-"),
    short_help="Set or remove labels of a host.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@click.argument("changes", metavar="KEY=VALUE|KEY-…", nargs=-1, required=True)
@fleet_target_options
@shape_output
def label(target: CommandTarget, host: str, changes: tuple[str, ...], output: str) -> None:
    """Set or remove the operator's labels of a host. Labels of its agent stay."""
    from hostler.control.client.edits import edit_as_read
    from hostler.control.schemas import HostEdit

    read: list[Host] = []
    with target.open() as client:

        def edit(found: Host, version: str) -> Host:
            read.append(found)
            _check_own(found, changes)
            return client.hosts.edit(host, HostEdit(labels=read_changes(changes, found.own_labels)), version=version)

        after = edit_as_read(lambda: client.hosts.get(host), edit)
    show_result(after, output, f"{after.name}: {_label_changes_text(read[-1], after, changes)}")


def _check_own(host: Host, changes: tuple[str, ...]) -> None:
    """Reject the removal of labels that are not the operator's; InputError."""
    away = [key for key, value in read_patch(changes).items() if value is None]
    others = [key for key in away if key in host.labels and key not in host.own_labels]
    if others:
        what = f"{', '.join(others)}: only labels that an operator set can be taken away from {host.name}"
        hint = "the service or the host's agent gives it; what the agent gives is said where it is started, by --label"
        raise InputError(what, hint=hint)


def _label_changes_text(before: Host, after: Host, changes: tuple[str, ...]) -> str:
    """Describe which labels were removed, which were not set, and which are set now."""
    away = [key for key, value in read_patch(changes).items() if value is None]
    if not away:
        return labels_text(after.own_labels)
    removed = [key for key in away if key in before.own_labels]
    parts = [f"{', '.join(removed)} removed"] if removed else []
    parts += [f"{key} was not set" for key in away if key not in removed]
    return "; ".join([*parts, f"left: {labels_text(after.own_labels)}" if after.own_labels else "none left"])


def _confirm_option(command: F) -> F:
    return click.option(
        "--confirm", metavar="NAME", default="", help="The host's name once more; without it you are asked."
    )(command)


@click.command(
    "force-offline",
    epilog=examples("hostler host force-offline node-3"),
    short_help="Treat a host as offline until its agent registers.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@_confirm_option
@fleet_target_options
@shape_output
def force_offline(target: CommandTarget, host: str, confirm: str, output: str) -> None:
    """Treat a host as offline at once, before it counts as silent.

    An agent that is alive registers again within seconds, and its host becomes ready. To keep a host offline, stop its
    agent first, or revoke its credential with 'hostler host revoke'. VMs do not start elsewhere: see confirm-dead.
    """
    with target.open() as client:
        name = client.hosts.get(host).name
        word = confirm_by_name(name, f"{name} will be treated as offline", confirm)
        found = client.hosts.force_offline(host, confirm=word)
    show_result(found, output, f"{found.name}: {host_state(found)}")


@click.command(
    "confirm-dead",
    epilog=examples("hostler host confirm-dead node-3", "hostler host confirm-dead node-3 --confirm node-3"),
    short_help="Confirm that nothing runs on a host any more.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@_confirm_option
@fleet_target_options
@shape_output
def confirm_dead(target: CommandTarget, host: str, confirm: str, output: str) -> None:
    """Confirm that nothing runs on a host, so that VMs with a restart policy start elsewhere.

    If that is wrong, a VM may run twice and destroy its disk. Switch the host off first.
    """
    with target.open() as client:
        name = client.hosts.get(host).name
        word = confirm_by_name(name, f"VMs of {name} will start elsewhere: the host must be switched off", confirm)
        found = client.hosts.confirm_dead(host, confirm=word)
    show_result(found, output, f"{found.name}: {host_state(found)}")


@click.command(
    "allow-teardown",
    epilog=examples("hostler host allow-teardown node-3 40"),
    short_help="Allow a host to remove many VMs at once.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@click.argument("count", metavar="COUNT", type=click.IntRange(1))
@fleet_target_options
@shape_output
def allow_teardown(target: CommandTarget, host: str, count: int, output: str) -> None:
    """Let a host remove the COUNT VMs that it keeps because an order to remove so many at once looked like a mistake.

    'hostler host get' shows the number.
    """
    with target.open() as client:
        found = client.hosts.allow_teardown(host, count)
    show_result(found, output, f"{found.name}: may remove {plural(count, 'VM')}")


@click.command(epilog=examples("hostler host delete node-3"), short_help="Delete a host.")
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@_confirm_option
@fleet_target_options
def delete(target: CommandTarget, host: str, confirm: str) -> None:
    """Delete a host that is gone for good. Its agent needs a new token to join again."""
    with target.open() as client:
        name = client.hosts.get(host).name
        word = confirm_by_name(name, f"{name} will be deleted", confirm)
        client.hosts.delete(host, confirm=word)
    say(printable(f"{name}: deleted"))
