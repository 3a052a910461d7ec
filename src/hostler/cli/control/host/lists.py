"""``hostler host list``, ``get`` and ``scheduling``, and texts about hosts for other commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.connection import CommandTarget, complete_host, fleet_target_options
from hostler.cli.control.output import Field, age, amounts_text, do_in_turn, labels_text, output, show_list, show_one
from hostler.cli.options import examples
from hostler.cli.output.decision_texts import readable_amount
from hostler.cli.output.terminal import note, print_data, printable, say
from hostler.model.resources import add_amounts, parse_amounts

if TYPE_CHECKING:
    from hostler.config.fleet.file_terms import TaintEntry
    from hostler.control.client import Client
    from hostler.control.schemas import Host, HostUse

__all__ = [
    "act_on_each", "check_all_there", "get", "host_state", "list_", "scheduling", "show_changed", "taint_text",
]  # fmt: skip


def check_all_there(client: Client, hosts: Sequence[str]) -> None:
    """Reject unknown hosts before anything is done; ServerNotFoundError."""
    for host in hosts if len(hosts) > 1 else ():
        client.hosts.get(host)


def act_on_each(
    client: Client, hosts: Sequence[str], act: Callable[[str], Host], show: Callable[[list[Host]], None]
) -> list[Host]:
    """Apply an action to hosts in turn. If one is rejected, show those that were changed before it."""
    check_all_there(client, hosts)
    return do_in_turn(hosts, act, show)


_ACCELERATIONS = {"kvm": "KVM", "tcg": "VMs are emulated in software, which is slow"}


def host_state(host: Host) -> str:
    """Return the state of a host with its mark: ``ready, draining``."""
    from hostler.control.schemas import texts

    return texts.host_state(host)


def taint_text(taint: TaintEntry) -> str:
    """Format a taint in the form of kubectl: ``gpu=yes:NoSchedule``, ``gpu:NoSchedule``."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def show_changed(found: list[Host], output: str, state: Callable[[Host], str], *, with_stuck: bool = True) -> None:
    """Show hosts after a change: as data, or the state of each and the VMs that cannot leave."""
    if output != "table":
        data = [msgspec.to_builtins(host) for host in found]
        print_data(data[0] if len(data) == 1 else {"items": data}, output)
        return
    for host in found:
        say(printable(f"{host.name}: {state(host)}"))
        for stuck in host.stuck if with_stuck and host.state == "ready" else ():
            say(printable(f"  {stuck.full_name} cannot leave: {stuck.why}"))


def _devices(host: Host) -> str:
    """Return how many devices of each kind are used, such as ``1 of 4 gpu:a100``."""
    used = Counter(host.devices_used)
    return ", ".join(f"{used[kind]} of {count} {kind}" for kind, count in sorted(Counter(host.devices).items()))


def _unknown_use(host: Host) -> str:
    """Return what unknown VMs use of a host, if anything: no other VM gets that."""
    use = host.unknown_use
    found = (("cpu", use.cpu_millis), ("memory", use.memory_bytes), ("storage", use.disk_bytes))
    texts = {name: readable_amount(name, amount) for name, amount in found if amount}
    return amounts_text(texts) if texts else ""


def _reserved_text(host: Host) -> str:
    """Return the total of all reservations on a host."""
    kept = add_amounts(parse_amounts(dict(one.amounts)) for one in host.reserved)
    return ", ".join(f"{name} {readable_amount(name, amount)}" for name, amount in kept)


def _reserved_by(host: Host) -> str:
    """Return the room of each reservation on a host."""
    from hostler.control.schemas.texts import keeper_text

    return "\n".join(f"{amounts_text(one.amounts)} {keeper_text(one)}" for one in host.reserved)


def _of(resource: str, key: str) -> Field[Host]:
    """Return a column with use and size of a resource."""

    def text(use: HostUse) -> str:
        return readable_amount("cpu" if key == "cpu_millis" else "memory", getattr(use, key))

    return Field(resource, lambda host: f"{text(host.used)}/{text(host.may_give)}", "right")


def _teardown(host: Host) -> str:
    """Return the VMs that a host keeps, with the command that lets it remove them."""
    from hostler.control.schemas.texts import teardown_text

    text = teardown_text(host)
    return f"{text}: 'hostler host allow-teardown {host.name} {host.refused_teardown}'" if text else ""


def _driver(host: Host) -> str:
    how = _ACCELERATIONS.get(host.capabilities.acceleration, "")
    return f"{host.driver} ({how})" if how else host.driver


def _fields() -> list[Field[Host]]:
    return [
        Field("NAME", lambda host: host.name),
        Field("STATE", host_state),
        _of("CPU", "cpu_millis"),
        _of("MEMORY", "memory_bytes"),
        _of("DISK", "disk_bytes"),
        Field("VMS", lambda host: host.vms, "right"),
        Field("DEVICES", _devices),
        Field("RESERVED", _reserved_text),
        Field("SEEN", lambda host: age(host.seen_at), "right"),
        Field("DRIVER", lambda host: host.driver, is_wide=True),
        Field("AGENT", lambda host: host.agent_version, is_wide=True),
        Field("LABELS", lambda host: labels_text(host.labels), is_wide=True),
        Field("TROUBLE", lambda host: host.trouble, is_wide=True),
        Field("ID", lambda host: host.id, is_wide=True),
    ]


def _details() -> list[Field[Host]]:
    from hostler.control.schemas.texts import inventory_text, watchdog_text

    return [
        Field("Name", lambda host: host.name),
        Field("Id", lambda host: host.id),
        Field("State", host_state),
        Field("Trouble", lambda host: host.trouble),
        Field("Seen", lambda host: f"{host.seen_at} ({age(host.seen_at)})" if host.seen_at else ""),
        Field("Driver", _driver),
        Field("Agent", lambda host: host.agent_version),
        *[_as_detail(_of(name, key)) for name, key in (
            ("CPU", "cpu_millis"), ("Memory", "memory_bytes"), ("Disk", "disk_bytes"))],
        Field("Reserved", _reserved_by),
        Field("VMs", lambda host: host.vms),
        Field("Devices", _devices),
        Field("Storages", lambda host: ", ".join(host.storages)),
        Field("Bridges", lambda host: ", ".join(host.bridges)),
        Field("Labels", lambda host: "\n".join(f"{key}={value}" for key, value in sorted(host.labels.items()))),
        Field("Taints", lambda host: ", ".join(taint_text(one) for one in host.taints)),
        Field("Overcommit", lambda host: amounts_text(host.overcommit) if host.overcommit else ""),
        Field("Kept back", lambda host: amounts_text(host.reserve) if host.reserve else ""),
        Field("Unknown VMs", lambda host: ", ".join(host.unknown_vms)),
        Field("They take", _unknown_use),
        Field("Keeps", _teardown),
        Field("Cannot leave", lambda host: "\n".join(f"{one.full_name}: {one.why}" for one in host.stuck)),
        Field("Watchdog", watchdog_text),
        Field("Inventory", inventory_text),
    ]  # fmt: skip


def _as_detail(field: Field[Host]) -> Field[Host]:
    return Field(field.heading, lambda host: f"{str(field.of(host)).replace('/', ' of ')} used")


@click.command(
    "list",
    epilog=examples("hostler host list", "hostler host list --state silent", "hostler host list -o wide"),
    short_help="List the hosts.",
)
@click.option(
    "--state",
    type=click.Choice(["joined", "ready", "silent", "offline", "fenced"]),
    default=None,
    help="Only hosts in this state.",
)
@fleet_target_options
@output
def list_(target: CommandTarget, state: str | None, output: str) -> None:
    """List the hosts with their use and size."""
    from hostler.control.access.names import by_number
    from hostler.control.schemas.texts import NO_HOSTS

    with target.open() as client:
        found = sorted(client.hosts.list(state=state or ""), key=lambda host: by_number(host.name))
        nothing = f"no host is {state}" if state else NO_HOSTS
        show_list(found, _fields(), output, nothing=nothing)


@click.command(
    epilog=examples("hostler host get node-3", "hostler host get node-3 -o json"), short_help="Show one host."
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@fleet_target_options
@output
def get(target: CommandTarget, host: str, output: str) -> None:
    """Show a host: size, use, labels and state; and if it is draining, the VMs that cannot leave."""
    with target.open() as client:
        show_one(client.hosts.get(host), _details(), output)


@click.command(
    epilog=examples("hostler host scheduling node-3", "hostler host scheduling node-3 -o json"),
    short_help="Show the view of a host for schedulers.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@fleet_target_options
@output
def scheduling(target: CommandTarget, host: str, output: str) -> None:
    """Show the view of a host for schedulers: status, use of each resource, and number of running VMs.

    The text has a fixed form for other programs: its GB are GiB (2^30 bytes). -o json has bytes.
    """
    with target.open() as client:
        found = client.hosts.scheduling(host)
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
        return
    for line in found.text.rstrip("\n").split("\n"):
        say(printable(line))
    note("GB in this text are GiB; -o json has bytes")
