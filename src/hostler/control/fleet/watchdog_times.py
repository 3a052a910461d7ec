"""When hosts' watchdogs stop VMs, and how long a proof of that has to wait. Pure.

A watchdog uses the stop age that its agent got at its last registration, even if another replica, or a service with
other settings, runs now. So the age is stored with the host before it is sent, as the longest age that the watchdog may
use.
"""

from __future__ import annotations

import msgspec

from hostler.control.fleet.hosts.host_body import HostBody
from hostler.control.fleet.times import LONGEST_ROLL_S, FleetTimes
from hostler.control.settings import ControlSettings
from hostler.control.store.rows.hosts import HostRow

__all__ = ["NEVER_S", "proof_after_s", "stop_age_s", "with_stop_age"]

NEVER_S = float("inf")

_AT_ONCE_S = 1e-9  # a lease that has run out before it is read


def stop_age_s(body: HostBody, settings: ControlSettings) -> float:
    """Return the lease age at which a host that registers now must stop VMs; 0: it stops nothing."""
    if body.must_relearn:
        # What it remembers of its orders may be what others have by now: until it knows the new ones it starts
        # nothing that silence stops.
        return _AT_ONCE_S
    return settings.stop_after_s if settings.stop_after_s < settings.silent_after_s else 0.0


def with_stop_age(before: HostRow, body: HostBody, told_s: float) -> HostBody:
    """Return a host that is about to get this age: until it reports, the new or the old age may apply.

    A host that never registered never got an age. If either age says that nothing is stopped, nothing is certain.
    """
    is_certain = before.state == "joined" or (told_s > 0 and body.told_stop_s > 0)
    believed_s = max(told_s, body.told_stop_s) if is_certain else 0.0
    return msgspec.structs.replace(body, told_stop_s=believed_s)


def proof_after_s(told_s: float, settings: ControlSettings, times: FleetTimes, *, unheard_s: float | None) -> float:
    """Return for how long a host must have been silent until its watchdog has certainly stopped its VMs.

    ``unheard_s``: how long the host had no answer when that began. None if it may have had an answer later, by a
    replica with an older cache.
    """
    if told_s <= 0 or not 0 < settings.stop_after_s < settings.silent_after_s:
        return NEVER_S
    age_s = max(told_s, settings.stop_after_s)
    if unheard_s is None:
        return age_s + max(times.roll_s, LONGEST_ROLL_S) + times.margin_s
    return max(age_s - unheard_s, 0.0) + times.margin_s
