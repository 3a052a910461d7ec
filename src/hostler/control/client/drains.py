"""Follows a drain to its end: which VMs left the host, what keeps the others, and how long to wait.

The control plane moves VMs by itself. This module watches it: lines report each VM, and the result says whether the
host is empty, cannot become empty, or needs more time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hostler.control.client.errors import NotAllowedError, ServerNotFoundError, StillUnderWayError
from hostler.errors import ConflictError, HostlerError
from hostler.model.vocabulary import plural

if TYPE_CHECKING:
    from hostler.control.client.client import Client
    from hostler.control.schemas import Host, HostStuck, Vm

__all__ = ["CannotLeaveError", "follow_drain", "vms_on"]

_LOOK_S = 0.5
_SHOWN = 3  # VMs in one sentence


class CannotLeaveError(ConflictError):
    """VMs cannot leave a draining host."""

    code = "cannot_leave"
    retryable = False


def follow_drain(
    client: Client,
    host: Host,
    here: dict[str, Vm],
    until: float,
    tell: Callable[[str], None],
    show: Callable[[str], None],
) -> tuple[Host, HostlerError | None]:
    """Wait until a host is empty or ``until`` (monotonic seconds); return its last state, and the error, if any.

    ``here`` are the VMs that were there before. ``tell`` gets a line for each VM that left or cannot leave, and
    ``show`` gets the progress.
    """
    told: set[str] = set()
    while True:
        host = client.hosts.get(host.id)
        now = vms_on(client, host)
        for vm in (vm for vm in here.values() if vm.id not in now):
            tell(_left(client, vm, host.name))
        seen = host.stuck if host.state == "ready" else []  # advice helps only while the host is heard
        stuck = [f"{one.full_name} cannot leave {host.name}: {one.why}" for one in seen]
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
        show(f"{host.name}: {plural(host.vms, 'VM')} to go{f' ({_first(moving)})' if moving else ''}")
        time.sleep(min(_LOOK_S, max(until - time.monotonic(), 0)))


def vms_on(client: Client, host: Host) -> dict[str, Vm]:
    """Return the VMs on a host by id; none if the key may not read VMs: then only their number is followed."""
    try:
        return {vm.id: vm for vm in client.vms.list(host=host.id)}
    except NotAllowedError:
        return {}


def _left(client: Client, vm: Vm, host: str) -> str:

    try:
        vm = client.vms.get(vm.id)
    except ServerNotFoundError:
        return f"{vm.project}/{vm.name} left {host}: it is gone"
    where = f" on {vm.host}" if vm.host else ""
    return f"{vm.project}/{vm.name} left {host}: it is {vm.state}{where}{f' ({vm.why})' if vm.why else ''}"


def _cannot_leave(host: Host) -> HostlerError:
    def text(one: HostStuck) -> str:
        return f"{one.full_name} ({one.why})"

    hint = f"see to these, or 'hostler host undrain {host.name}'"
    return CannotLeaveError(f"cannot leave {host.name}: {_first([text(one) for one in host.stuck])}", hint=hint)


def _still_under_way(host: Host, left: list[Vm]) -> HostlerError:

    what = f"{plural(host.vms, 'VM')} still on {host.name}"
    kept = {one.vm: f"cannot leave ({one.why})" for one in host.stuck}
    names = [f"{vm.project}/{vm.name} {kept.get(vm.id) or f'is {vm.state}'}" for vm in left]
    if host.state != "ready":
        gone = f"where it is gone for good, switch it off, then 'hostler host confirm-dead {host.name}'"
        unheard = f"{what}, which is {host.state}: VMs leave it when it is heard again"
        return StillUnderWayError(unheard, hint=f"see to its agent; {gone}")
    hint = f"it continues; 'hostler host drain {host.name} --wait' waits for it"
    return StillUnderWayError(f"{what}: {_first(names)}" if names else what, hint=hint)


def _first(texts: list[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
