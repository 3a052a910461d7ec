"""What is wrong with a host, in words for people: what stands of it now, and what events tell of it. Pure.

An agent can report ever new VMs that nobody knows, each of them once. The host always lists all of them; events name
the first and then, once a minute at most, how many came since.
"""

from __future__ import annotations

import msgspec

from hostler.agent.limits import shortened
from hostler.agent.messages import UnavailableStorage
from hostler.control.fleet.hosts import HostBody, is_unregistered
from hostler.control.fleet.times import SECOND
from hostler.control.store.hosts import HostRow

__all__ = ["STRANGERS_EVERY_S", "news_of_trouble", "trouble_of"]

STRANGERS_EVERY_S = 60
_SIZE_CURE = "lower its overcommitment, or mend the size that the agent tells"
_DEVICES_CURE = (
    "delete hosts that are not needed or correct the device names that agents report, then restart its agent"
)
_replace = msgspec.structs.replace


def trouble_of(row: HostRow, body: HostBody) -> str:
    """Say what is wrong with a host that its state does not tell, and what ends it; nothing where nothing is."""
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
        more = f"it has {body.unknown_left_out} more VMs that nobody ordered than it can list"
        found.append(f"{more}: remove those that are not needed")
    return "; ".join(found)


def news_of_trouble(before: HostBody, body: HostBody, now_ns: int) -> tuple[HostBody, str]:
    """Return a host that remembers what was told, and what is to be told now; nothing where nothing is new."""
    body, strangers = _news_of_strangers(before, body, now_ns)
    found = [strangers] if strangers else []
    if body.refused_size and body.refused_size != before.refused_size:
        found.append(_refused_size(body))
    found += [_unavailable(one) for one in body.unavailable if one not in before.unavailable]
    back = {one.name for one in before.unavailable} - {one.name for one in body.unavailable}
    found += [f"{_place(name)} is available again" for name in sorted(back)]
    return body, shortened("; ".join(found))


def _refused_size(body: HostBody) -> str:
    """Return how a host counts instead of by the size that its agent reports, and why."""
    if body.is_without_devices:
        return f"it counts without its devices, so VMs that need one do not fit: {body.refused_size}"
    return f"the size that its agent tells is not taken, and it counts as large as before: {body.refused_size}"


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
        found.append(shortened(f"has VMs that nobody knows, and keeps them: {', '.join(new)}"))
    if untold:
        found.append(f"since the last such event came {untold} more that nobody knows")
    if not found:
        return body, ""
    return _replace(body, strangers_told_ns=now_ns, strangers_untold=0), "; ".join(found)
