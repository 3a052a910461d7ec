"""``hostler host list``, ``get`` and ``scheduling``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import click
import msgspec

from hostler.cli.control.connecting import There, complete_host, connects_fleet_wide
from hostler.cli.control.hints import NO_HOSTS
from hostler.cli.control.showing import Field, age, amounts_text, labels_text, output, show_list, show_one
from hostler.cli.options import examples
from hostler.cli.terminal import note, print_data, printable, say
from hostler.cli.wording import plural, readable_amount
from hostler.model.resources import add_amounts, parse_amounts

if TYPE_CHECKING:
    from hostler.config.fleet_file_terms import TaintEntry
    from hostler.control.api.shapes import Host, HostStuck, HostUse

__all__ = ["get", "host_state", "list_", "scheduling", "show_changed", "stuck_name", "taint_text"]

_ACCELERATIONS = {"kvm": "KVM", "tcg": "VMs are emulated in software, which is slow"}


def host_state(host: Host) -> str:
    """Say how a host is, with its marks."""
    is_missed = host.state == "ready" and not host.registered
    known = (("not registered", is_missed), ("draining", host.draining), ("cordoned", host.cordoned))
    marks = [word for word, is_so in known if is_so]
    return ", ".join([host.state, *marks[:1]])


def stuck_name(one: HostStuck) -> str:
    """Name a VM that cannot leave a host, as far as the caller may know it."""
    return f"{one.project}/{one.name}" if one.project else one.name


def taint_text(taint: TaintEntry) -> str:
    """Write a taint as kubectl does: ``gpu=yes:NoSchedule``, ``gpu:NoSchedule``."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def show_changed(found: list[Host], output: str, state: Callable[[Host], str], *, with_stuck: bool = True) -> None:
    """Show hosts after a verb: as data, or how each is now, and who cannot leave it."""
    if output != "table":
        data = [msgspec.to_builtins(host) for host in found]
        print_data(data[0] if len(data) == 1 else {"items": data}, output)
        return
    for host in found:
        say(printable(f"{host.name}: {state(host)}"))
        for stuck in host.stuck if with_stuck and host.state == "ready" else ():
            say(printable(f"  {stuck_name(stuck)} cannot leave: {stuck.why}"))


def _devices(host: Host) -> str:
    """Say how many devices of each kind are used and there, such as ``1 of 4 gpu:a100``."""
    used = Counter(host.devices_used)
    return ", ".join(f"{used[kind]} of {count} {kind}" for kind, count in sorted(Counter(host.devices).items()))


def _unknown_use(host: Host) -> str:
    """Say what unknown VMs take of a host, where they take something: no other VM gets that."""
    use = host.unknown_use
    found = (("cpu", use.cpu_millis), ("memory", use.memory_bytes), ("storage", use.disk_bytes))
    texts = {name: readable_amount(name, amount) for name, amount in found if amount}
    return amounts_text(texts) if texts else ""


def _reserved(host: Host) -> str:
    """Say what reservations keep of a host in all."""
    kept = add_amounts(parse_amounts(dict(one.amounts)) for one in host.reserved)
    return ", ".join(f"{name} {readable_amount(name, amount)}" for name, amount in kept)


def _reserved_by(host: Host) -> str:
    """Say which reservation keeps what of a host."""
    return "\n".join(f"{amounts_text(one.amounts)} by {one.reservation}" for one in host.reserved)


def _of(resource: str, key: str) -> Field[Host]:
    """Return a column with what is used of a resource, and what there is."""

    def text(use: HostUse) -> str:
        return readable_amount("cpu" if key == "cpu_millis" else "memory", getattr(use, key))

    return Field(resource, lambda host: f"{text(host.used)}/{text(host.may_give)}", "right")


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
        Field("RESERVED", _reserved),
        Field("SEEN", lambda host: age(host.seen_at), "right"),
        Field("DRIVER", lambda host: host.driver, is_wide=True),
        Field("AGENT", lambda host: host.agent_version, is_wide=True),
        Field("LABELS", lambda host: labels_text(host.labels), is_wide=True),
        Field("TROUBLE", lambda host: host.trouble, is_wide=True),
        Field("ID", lambda host: host.id, is_wide=True),
    ]


def _details() -> list[Field[Host]]:
    return [
        Field("Name", lambda host: host.name),
        Field("Id", lambda host: host.id),
        Field("State", host_state),
        Field("Trouble", lambda host: host.trouble),
        Field("Seen", lambda host: f"{host.seen_at} ({age(host.seen_at)})" if host.seen_at else ""),
        Field("Driver", _driver),
        Field("Agent", lambda host: host.agent_version),
        *[_lined(_of(name, key)) for name, key in (
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
        Field("Keeps", lambda host: f"{plural(host.refused_teardown, 'VM')} until 'hostler host allow-teardown'"
              if host.refused_teardown else ""),
        Field("Cannot leave", lambda host: "\n".join(f"{stuck_name(one)}: {one.why}" for one in host.stuck)),
        Field("Watchdog", lambda host: f"works, stops up to {plural(host.watched_vms, 'VM')} in time" if host.watched
              else "none seen"),
        Field("Inventory", lambda host: "" if host.inventory_known else "not known yet: it counts as full"),
    ]  # fmt: skip


def _lined(field: Field[Host]) -> Field[Host]:
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
    help="Only hosts that are so.",
)
@connects_fleet_wide
@output
def list_(there: There, state: str | None, output: str) -> None:
    """List the hosts, with what is kept there for VMs and what they may give."""
    from hostler.control.access.names import by_number

    with there.open() as client:
        found = sorted(client.hosts.list(state=state or ""), key=lambda host: by_number(host.name))
        nothing = f"no host is {state}" if state else NO_HOSTS
        show_list(found, _fields(), output, nothing=nothing)


@click.command(
    epilog=examples("hostler host get node-3", "hostler host get node-3 -o json"), short_help="Show one host."
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@connects_fleet_wide
@output
def get(there: There, host: str, output: str) -> None:
    """Show a host: what it has, what is kept there, how it is marked, and while it is drained who cannot leave."""
    with there.open() as client:
        show_one(client.hosts.get(host), _details(), output)


@click.command(
    epilog=examples("hostler host scheduling node-3", "hostler host scheduling node-3 -o json"),
    short_help="Show what a scheduler looks at of a host.",
)
@click.argument("host", metavar="HOST", shell_complete=complete_host)
@connects_fleet_wide
@output
def scheduling(there: There, host: str, output: str) -> None:
    """Show what a scheduler looks at of a host: status, what is used of each resource, and how many VMs run.

    The text has a fixed form, which other programs read: its GB are GiB (2^30 bytes). -o json has bytes.
    """
    with there.open() as client:
        found = client.hosts.scheduling(host)
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
        return
    for line in found.text.rstrip("\n").split("\n"):
        say(printable(line))
    note("GB in this text are GiB; -o json has bytes")
