"""What hosts were told about when their watchdogs stop VMs, and how long a proof waits for that. Pure.

A watchdog goes by what its agent was told when it last registered, whatever a service says that was started since with
other settings, or another replica. So it is kept with the host before it is told: the longest that it may believe in.
"""

from __future__ import annotations

import msgspec

from hostler.control.fleet.hosts import HostBody
from hostler.control.fleet.times import LONGEST_ROLL_S, FleetTimes
from hostler.control.settings import ControlSettings
from hostler.control.store.hosts import HostRow

__all__ = ["NEVER_S", "proof_after_s", "told_now_s", "with_told"]

NEVER_S = float("inf")

_AT_ONCE_S = 1e-9  # a lease that has run out before it is read


def told_now_s(body: HostBody, settings: ControlSettings) -> float:
    """Return the lease age at which a host that registers now is told to stop VMs; 0: it is to stop nothing."""
    if body.must_relearn:
        # What it remembers of its orders may be what others have by now: until it knows the new ones it starts
        # nothing that silence stops.
        return _AT_ONCE_S
    return settings.stop_after_s if settings.stop_after_s < settings.silent_after_s else 0.0


def with_told(before: HostRow, body: HostBody, told_s: float) -> HostBody:
    """Return a host that is about to be told this: until it reports, it may have heard it or believe what was before.

    Who never registered was never told anything. Where either says that nothing is stopped, nothing is certain.
    """
    is_certain = before.state == "joined" or (told_s > 0 and body.told_stop_s > 0)
    believed_s = max(told_s, body.told_stop_s) if is_certain else 0.0
    return msgspec.structs.replace(body, told_stop_s=believed_s)


def proof_after_s(told_s: float, settings: ControlSettings, times: FleetTimes, *, unheard_s: float | None) -> float:
    """Return for how long a host must have been seen silent until its watchdog has stopped its VMs for certain.

    ``unheard_s``: for so long nobody had answered it when that began. None where it may have been answered later still,
    by a replica that had not read the roll anew.
    """
    if told_s <= 0 or not 0 < settings.stop_after_s < settings.silent_after_s:
        return NEVER_S
    age_s = max(told_s, settings.stop_after_s)
    if unheard_s is None:
        return age_s + max(times.roll_s, LONGEST_ROLL_S) + times.margin_s
    return max(age_s - unheard_s, 0.0) + times.margin_s
