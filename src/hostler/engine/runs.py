"""Kernel runs: a list of guests passed to the kernel at once, decided exactly as one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.cache.cache import RunResult
from hostler.engine.cluster.randomness import PLACEMENT, draw, guest_key
from hostler.engine.kernels.layout import Int8s, Int64s, Uint64s
from hostler.engine.state.records import GuestRecord
from hostler.engine.state.state import State

__all__ = ["KernelRun", "KernelRuns"]


class KernelRun(NamedTuple):
    """A list of guests in the kernel's terms; valid as long as the cache keeps its slots (``generation``)."""

    slots: Int64s
    draws: Uint64s
    stops: Int8s
    devices: int
    policies: frozenset[int]
    generation: int


class KernelRuns:
    """Prepares lists of guests for the kernel, and passes them piece by piece."""

    def __init__(self, state: State) -> None:
        self._state = state

    def prepare(self, records: Sequence[GuestRecord], policies: Sequence[int], stops: Sequence[bool]) -> KernelRun:
        """Assign a slot to every shape and a random number to every guest."""
        state = self._state
        profiles, shapes = state.profiles.profiles, state.shapes.shapes
        slot_of: dict[tuple[int, int], int] = {}
        slots: list[int] = []
        draws: list[int] = []
        devices = 0
        for record, policy in zip(records, policies, strict=True):
            key = (record.shape, policy)
            slot = slot_of.get(key)
            if slot is None:
                shape = shapes[record.shape]
                slot = slot_of[key] = state.cache.slot(shape, policy)
                devices = max(devices, shape.device_count)
            slots.append(slot)
            draws.append(self.draw(record) if profiles[policy].draws else 0)
        return KernelRun(
            np.array(slots, dtype=np.int64),
            np.array(draws, dtype=np.uint64),
            np.array(stops, dtype=np.int8),
            devices,
            frozenset(policies),
            state.cache.generation,
        )

    def decide(self, prepared: KernelRun, start: int, count: int, *, after: Collection[int] = ()) -> RunResult:
        """Decide some of the guests and book the placements, up to a rejected guest that stops the run.

        ``after`` has policies of preceding runs whose turns are not recorded yet: their round robin continues from
        there.
        """
        self._set_turns(prepared.policies.difference(after))
        end = start + count
        return self._state.cache.run(
            prepared.slots[start:end], prepared.draws[start:end], prepared.stops[start:end], prepared.devices
        )

    def draw(self, record: GuestRecord) -> int:
        """Return the random number of a guest's next attempt."""
        return draw(self._state.seed, guest_key(record.guest), record.attempts, PLACEMENT)

    def _set_turns(self, policies: Iterable[int]) -> None:
        """Set the position of each round robin for the kernel."""
        state = self._state
        for policy in policies:
            profile = state.profiles.profiles[policy]
            if profile.takes_turns:
                last = state.turns.last(profile.policy.name)
                state.profiles.last_key[policy] = state.cluster.order.key_up_to(last)
