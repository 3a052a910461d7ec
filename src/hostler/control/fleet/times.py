"""Times and numbers of the fleet, derived from the settings or fixed. Tests make them short.

``wait`` is a pause that ends early when the service stops.
"""

from __future__ import annotations

import asyncio

import msgspec

from hostler.agent.watchdog.deadlines import PROOF_S
from hostler.control.settings import ControlSettings

__all__ = ["LONGEST_ROLL_S", "SECOND", "FleetTimes", "times_for", "wait"]

SECOND = 1_000_000_000
LONGEST_ROLL_S = 5.0  # of any replica, whatever its settings are


class FleetTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Times in seconds."""

    roll_s: float = LONGEST_ROLL_S  # how long what was read of credentials and epochs is believed
    publish_s: float = 5.0  # between two tellings of whom this replica heard
    longest_poll_s: float = 60.0
    look_s: float = 1.0  # between two looks of the leader
    # The longest pause of an agent between two tries to reach us: 30 s and 30 % by chance, before agents knew better.
    longest_pause_s: float = 39.0
    margin_s: float = PROOF_S  # from when the lease of a host runs out until its VMs count as stopped
    fence_timeout_s: float = 60.0
    fence_again_s: float = 60.0  # after a fencing command that failed
    moves_at_once: int = 4  # of one draining host
    move_again_s: float = 30.0  # after a move that came to nothing
    tidy_s: float = 60.0
    tidy_at_once: int = 500  # rows of a kind that one transaction removes: a few milliseconds of the writer
    tidy_pause_s: float = 0.05  # for everybody else who writes


_PAUSE_TO_SILENCE = 2.6  # 39 s for the default of 15 s


def times_for(settings: ControlSettings) -> FleetTimes:
    """Return times that fit how soon a host is silent: replicas must exchange news faster than that."""
    usual = FleetTimes()
    third = settings.silent_after_s / 3
    return msgspec.structs.replace(
        usual,
        roll_s=min(usual.roll_s, third),
        publish_s=min(usual.publish_s, third),
        look_s=min(usual.look_s, third / 2),
        # Agents pause for less than a silence; where that is short, an old agent's pause is not worth waiting for.
        longest_pause_s=min(usual.longest_pause_s, _PAUSE_TO_SILENCE * settings.silent_after_s),
    )


async def wait(stopping: asyncio.Event, seconds: float) -> None:
    """Wait that long, or until told to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return
