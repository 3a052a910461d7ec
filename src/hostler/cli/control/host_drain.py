"""``hostler host drain``: let hosts be emptied, and follow it with ``--wait``."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from hostler.cli.control.connecting import There, complete_host, connects_fleet_wide
from hostler.cli.control.host_show import host_state, show_changed, stuck_name
from hostler.cli.control.progress_line import Progress, progress_line, said_when_interrupted
from hostler.cli.control.several_hosts import act_on_each
from hostler.cli.control.showing import shape_output
from hostler.cli.control.waiting import WaitingCommand, wait_option
from hostler.cli.options import examples
from hostler.cli.terminal import printable, say
from hostler.cli.wording import plural
from hostler.errors import ConflictError, HostlerError

if TYPE_CHECKING:
    from hostler.control.api.shapes import Host, HostStuck, Vm
    from hostler.control.client import Client

__all__ = ["CannotLeaveError", "drain"]

_LOOK_S = 0.5
_SHOWN = 3  # VMs in one sentence


class CannotLeaveError(ConflictError):
    """VMs cannot leave a host that is drained."""

    code = "cannot_leave"
    retryable = False


@click.command(
    cls=WaitingCommand,
    epilog=examples("hostler host drain node-3", "hostler host drain node-3 --wait 10m"),
    short_help="Move VMs away from hosts.",
)
@click.argument("hosts", metavar="HOST…", nargs=-1, required=True, shell_complete=complete_host)
@wait_option("Wait until the hosts are empty")
@connects_fleet_wide
@shape_output
def drain(there: There, hosts: tuple[str, ...], wait_s: int | None, output: str) -> None:
    """Move VMs away from hosts, a few at a time, and let them take nothing new.

    VMs that cannot leave stay, also those for which no other host has room; 'hostler host get' lists them with the
    reason. --wait says of each VM where it went or what keeps it, and ends with 4 when only those are left that cannot
    leave, with 3 when the time is over. They are tried again now and then, and at once when you ask again.
    """
    is_table = output == "table"

    def show(found: list[Host]) -> None:
        show_changed(found, output, _emptied, with_stuck=wait_s is None)

    with there.open() as client:
        # Before they begin to leave: one that is quick, or on the last of many hosts, is told of too.
        before = [_there(client, client.hosts.get(host)) for host in hosts] if wait_s is not None else []
        found = act_on_each(client, hosts, lambda host: client.hosts.act(host, "drain"), show)
        failures: list[HostlerError] = []
        if wait_s is not None:
            tell = (lambda line: say(printable(line))) if is_table else (lambda line: None)
            until = time.monotonic() + wait_s
            with said_when_interrupted(lambda: _goes_on(hosts)), progress_line() as progress:
                pairs = zip(found, before, strict=True)
                ends = [_follow(client, host, here, until, tell, progress) for host, here in pairs]
            found = [host for host, _ in ends]
            failures = [error for _, error in ends if error is not None]
    show(found)
    if failures:
        raise min(failures, key=lambda error: -error.exit_code)  # what cannot be beats what may still come true


def _emptied(host: Host) -> str:
    state = f"{host_state(host)}, {plural(host.vms, 'VM') if host.vms else 'empty'}"
    return f"{state}; nothing leaves it before it is heard again" if host.vms and host.state != "ready" else state


def _goes_on(hosts: tuple[str, ...]) -> str:
    how = f"'hostler host get {hosts[0]}' shows how far it is, 'hostler host undrain {' '.join(hosts)}' ends it"
    return f"the draining of {', '.join(hosts)} goes on; {how}"


def _follow(
    client: Client, host: Host, here: dict[str, Vm], until: float, tell: Callable[[str], None], progress: Progress
) -> tuple[Host, HostlerError | None]:
    """Wait until a host is empty, telling of each VM that left; return how it is then, and what is wrong with that.

    ``here`` are the VMs that were there before.
    """
    told: set[str] = set()
    while True:
        host = client.hosts.get(host.id)
        now = _there(client, host)
        for vm in (vm for vm in here.values() if vm.id not in now):
            tell(_left(client, vm, host.name))
        seen = host.stuck if host.state == "ready" else []  # what to do about them helps only where somebody hears it
        stuck = [f"{stuck_name(one)} cannot leave {host.name}: {one.why}" for one in seen]
        for line in (line for line in stuck if line not in told):
            tell(line)
        here, told = now, set(stuck)
        if not host.vms:
            return host, None
        if len(seen) >= host.vms:
            return host, _cannot_leave(host)
        if time.monotonic() >= until:
            return host, _still_under_way(host, list(now.values()))
        moving = [f"{vm.name} is {vm.state}" for vm in now.values() if vm.state not in ("running", "stopped")]
        progress.show(f"{host.name}: {plural(host.vms, 'VM')} to go{f' ({_first(moving)})' if moving else ''}")
        time.sleep(min(_LOOK_S, max(until - time.monotonic(), 0)))


def _there(client: Client, host: Host) -> dict[str, Vm]:
    """Return the VMs on a host by id; none to a key that may empty hosts and not read VMs, which follows by number."""
    from hostler.control.client.errors import NotAllowedError

    try:
        return {vm.id: vm for vm in client.vms.list(host=host.id)}
    except NotAllowedError:
        return {}


def _left(client: Client, vm: Vm, host: str) -> str:
    from hostler.control.client.errors import UnknownThereError

    try:
        vm = client.vms.get(vm.id)
    except UnknownThereError:
        return f"{vm.project}/{vm.name} left {host}: it is gone"
    where = f" on {vm.host}" if vm.host else ""
    return f"{vm.project}/{vm.name} left {host}: it is {vm.state}{where}{f' ({vm.why})' if vm.why else ''}"


def _cannot_leave(host: Host) -> HostlerError:
    def text(one: HostStuck) -> str:
        return f"{stuck_name(one)} ({one.why})"

    hint = f"see to these, or 'hostler host undrain {host.name}'"
    return CannotLeaveError(f"cannot leave {host.name}: {_first([text(one) for one in host.stuck])}", hint=hint)


def _still_under_way(host: Host, left: list[Vm]) -> HostlerError:
    from hostler.control.client.errors import StillUnderWayError

    what = f"{plural(host.vms, 'VM')} still on {host.name}"
    kept = {one.vm: f"cannot leave ({one.why})" for one in host.stuck}
    names = [f"{vm.project}/{vm.name} {kept.get(vm.id) or f'is {vm.state}'}" for vm in left]
    if host.state != "ready":
        gone = f"where it is gone for good, switch it off, then 'hostler host confirm-dead {host.name}'"
        unheard = f"{what}, which is {host.state}: nothing leaves it before it is heard again"
        return StillUnderWayError(unheard, hint=f"see to its agent; {gone}")
    hint = f"it goes on; 'hostler host drain {host.name} --wait' waits for it"
    return StillUnderWayError(f"{what}: {_first(names)}" if names else what, hint=hint)


def _first(texts: list[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
