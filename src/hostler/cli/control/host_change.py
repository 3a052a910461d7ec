"""Commands that change hosts: cordon, drain, label, and what cannot be taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hostler.cli.control.asking import confirm_by_name, read_changes, read_patch
from hostler.cli.control.connecting import There, complete_host, connects_fleet_wide
from hostler.cli.control.host_show import host_state, show_changed
from hostler.cli.control.rereading import edit_as_read
from hostler.cli.control.several_hosts import act_on_each
from hostler.cli.control.showing import labels_text, shape_output, told
from hostler.cli.options import examples
from hostler.cli.terminal import printable, say
from hostler.cli.wording import plural
from hostler.errors import InputError

if TYPE_CHECKING:
    from hostler.control.api.shapes import Host
    from hostler.control.client.hosts import HostVerb

__all__ = [
    "allow_teardown",
    "confirm_dead",
    "cordon",
    "delete",
    "force_offline",
    "label",
    "uncordon",
    "undrain",
]

F = TypeVar("F", bound=Callable[..., Any])


def _command(verb: HostVerb, summary: str, text: str) -> click.Command:
    """Make the command of one verb that can be taken back."""

    @click.command(verb, help=text, epilog=examples(f"hostler host {verb} node-3"), short_help=summary)
    @click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=complete_host)
    @connects_fleet_wide
    @shape_output
    def run(there: There, hosts: tuple[str, ...], output: str) -> None:
        def show(found: list[Host]) -> None:
            show_changed(found, output, host_state)

        with there.open() as client:
            show(act_on_each(client, hosts, lambda host: client.hosts.act(host, verb), show))

    return run


cordon = _command("cordon", "Let hosts take nothing new.", "Let hosts take nothing new. What runs there runs on.")
uncordon = _command("uncordon", "Let hosts take VMs again.", "Let hosts take VMs again.")
undrain = _command("undrain", "End the draining of hosts.", "End the draining of hosts; they take VMs again.")


@click.command(
    epilog=examples("hostler host label node-3 disk=ssd", "hostler host label node-3 disk-"),
    short_help="Set labels of a host, or take them away.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@click.argument("changes", metavar="KEY=VALUE|KEY-…", nargs=-1, required=True)
@connects_fleet_wide
@shape_output
def label(there: There, host: str, changes: tuple[str, ...], output: str) -> None:
    """Set the operator's labels of a host, or take them away. Those of its agent stay as they are."""
    from hostler.control.api.shapes import HostEdit

    read: list[Host] = []
    with there.open() as client:

        def edit(found: Host, version: str) -> Host:
            read.append(found)
            _check_own(found, changes)
            return client.hosts.edit(host, HostEdit(labels=read_changes(changes, found.own_labels)), version=version)

        after = edit_as_read(lambda: client.hosts.get(host), edit)
    told(after, output, f"{after.name}: {_labelled(read[-1], after, changes)}")


def _check_own(host: Host, changes: tuple[str, ...]) -> None:
    """Refuse to take away labels that are not the operator's, as setting them is refused; InputError."""
    away = [key for key, value in read_patch(changes).items() if value is None]
    others = [key for key in away if key in host.labels and key not in host.own_labels]
    if others:
        what = f"{', '.join(others)}: only labels that an operator set can be taken away from {host.name}"
        hint = "the service or the host's agent gives it; what the agent gives is said where it is started, by --label"
        raise InputError(what, hint=hint)


def _labelled(before: Host, after: Host, changes: tuple[str, ...]) -> str:
    """Say which labels were taken away, which were not there, and which the operator has set now."""
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
@connects_fleet_wide
@shape_output
def force_offline(there: There, host: str, confirm: str, output: str) -> None:
    """Treat a host as offline at once, without waiting until it counts as silent.

    An agent that lives registers again within seconds, and its host is ready as before. To keep a host offline, stop
    its agent first, or lock it out with 'hostler host revoke'. VMs are not started elsewhere: see confirm-dead.
    """
    with there.open() as client:
        name = client.hosts.get(host).name
        word = confirm_by_name(name, f"{name} is to be treated as offline", confirm)
        found = client.hosts.force_offline(host, confirm=word)
    told(found, output, f"{found.name}: {host_state(found)}")


@click.command(
    "confirm-dead",
    epilog=examples("hostler host confirm-dead node-3", "hostler host confirm-dead node-3 --confirm node-3"),
    short_help="Give your word that nothing runs on a host any more.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@_confirm_option
@connects_fleet_wide
@shape_output
def confirm_dead(there: There, host: str, confirm: str, output: str) -> None:
    """Give your word that nothing runs on a host any more, so that VMs that may be restarted start elsewhere.

    If it is not true, a VM may run twice and destroy its disk. Switch the host off first.
    """
    with there.open() as client:
        name = client.hosts.get(host).name
        word = confirm_by_name(name, f"VMs of {name} will start elsewhere: it must be switched off", confirm)
        found = client.hosts.confirm_dead(host, confirm=word)
    told(found, output, f"{found.name}: {host_state(found)}")


@click.command(
    "allow-teardown",
    epilog=examples("hostler host allow-teardown node-3 40"),
    short_help="Let a host tear down many VMs at once.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@click.argument("count", metavar="COUNT", type=click.IntRange(1))
@connects_fleet_wide
@shape_output
def allow_teardown(there: There, host: str, count: int, output: str) -> None:
    """Let a host tear down the COUNT VMs that it keeps, because an order to end so many at once looked like a mistake.

    'hostler host get' says how many it keeps.
    """
    with there.open() as client:
        found = client.hosts.allow_teardown(host, count)
    told(found, output, f"{found.name}: may tear down {plural(count, 'VM')}")


@click.command(epilog=examples("hostler host delete node-3"), short_help="Forget a host.")
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@_confirm_option
@connects_fleet_wide
def delete(there: There, host: str, confirm: str) -> None:
    """Forget a host that is gone for good. Its agent is not let in again without a new token."""
    with there.open() as client:
        name = client.hosts.get(host).name
        word = confirm_by_name(name, f"{name} is to be forgotten", confirm)
        client.hosts.delete(host, confirm=word)
    say(printable(f"{name}: deleted"))
