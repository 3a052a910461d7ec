"""Problems of a host, as text: its current problems, and events about new ones. Pure.

An agent may report ever new unknown VMs, each once. The host always lists all of them. Events name the first and then,
at most once a minute, say how many were added.
"""

from __future__ import annotations

import msgspec

from hostler.agent.messages import UnavailableStorage, shorten
from hostler.control.fleet.hosts.host_body import HostBody, is_unregistered
from hostler.control.fleet.times import SECOND
from hostler.control.store.rows.hosts import HostRow
from hostler.model.vocabulary import plural

__all__ = ["STRANGERS_EVERY_S", "describe_problems", "update_reported_problems"]

STRANGERS_EVERY_S = 60
_SIZE_CURE = "lower its overcommitment, or fix the size that the agent reports"
_DEVICES_CURE = (
    "delete hosts that are not needed or correct the device names that agents report, then restart its agent"
)
_replace = msgspec.structs.replace


def describe_problems(row: HostRow, body: HostBody) -> str:
    """Return the host's problems that its state does not show, with what to do; empty if there are none."""
    found: list[str] = []
    if is_unregistered(row):
        found.append(
            "it has not registered since the restore, and until it has, VMs of the backup get no orders on any host: "
            f"start its agent, or if the machine is gone for good, hostler host confirm-dead {row.name}"
        )
    if body.refused_size:
        found.append(f"{_refused_size(body)}; {_DEVICES_CURE if body.is_without_devices else _SIZE_CURE}")
    found += [_unavailable(one) for one in body.unavailable]
    if body.unknown_left_out:
        more = f"it has {plural(body.unknown_left_out, 'more VM')} without an order than it can list"
        found.append(f"{more}: remove those that are not needed")
    return "; ".join(found)


def update_reported_problems(before: HostBody, body: HostBody, now_ns: int) -> tuple[HostBody, str]:
    """Update the host's reported problems. Return it and the text of an event; empty if nothing is new."""
    body, strangers = _news_of_strangers(before, body, now_ns)
    found = [strangers] if strangers else []
    if body.refused_size and body.refused_size != before.refused_size:
        found.append(_refused_size(body))
    found += [_unavailable(one) for one in body.unavailable if one not in before.unavailable]
    back = {one.name for one in before.unavailable} - {one.name for one in body.unavailable}
    found += [f"{_place(name)} is available again" for name in sorted(back)]
    return body, shorten("; ".join(found))


def _refused_size(body: HostBody) -> str:
    """Say which size counts instead of the size that the agent reports, and why."""
    if body.is_without_devices:
        return f"it counts without its devices, so VMs that need one do not fit: {body.refused_size}"
    return f"the size that its agent reports is rejected, and its old size counts: {body.refused_size}"


def _unavailable(storage: UnavailableStorage) -> str:
    what = "VMs there stay as they are, and none is made there" if storage.name else "its VMs stay as they are"
    return f"{_place(storage.name)} is unavailable: {storage.why}; until it is back, {what}"


def _place(name: str) -> str:
    return f"storage {name}" if name else "the place of its local disks"


def _news_of_strangers(before: HostBody, body: HostBody, now_ns: int) -> tuple[HostBody, str]:
    known, untold = set(before.strangers), body.strangers_untold
    new = [vm for vm in body.strangers if vm not in known]
    if 0 <= now_ns - body.strangers_told_ns < STRANGERS_EVERY_S * SECOND:
        return _replace(body, strangers_untold=untold + len(new)), ""
    found: list[str] = []
    if new:
        found.append(shorten(f"has unknown VMs, and keeps them: {', '.join(new)}"))
    if untold:
        found.append(f"since the last such event: {plural(untold, 'more unknown VM')}")
    if not found:
        return body, ""
    return _replace(body, strangers_told_ns=now_ns, strangers_untold=0), "; ".join(found)
