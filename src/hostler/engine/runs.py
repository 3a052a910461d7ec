"""Runs: a list of guests handed to the kernel at once, decided exactly as one at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hostler.engine.cache import RunResult
from hostler.engine.kernels_layout import Int8s, Int64s, Uint64s
from hostler.engine.randomness import PLACEMENT, draw, guest_key
from hostler.engine.records import GuestRecord
from hostler.engine.state import State

__all__ = ["Prepared", "Runs"]


class Prepared(NamedTuple):
    """A list of guests in the kernel's terms; good as long as the cache keeps its slots."""

    slots: Int64s
    draws: Uint64s
    stops: Int8s
    devices: int
    policies: frozenset[int]
    generation: int


class Runs:
    """Prepares what the kernel needs for a list of guests, and hands it over piece by piece."""

    def __init__(self, state: State) -> None:
        self._state = state

    def prepare(self, records: Sequence[GuestRecord], policies: Sequence[int], stops: Sequence[bool]) -> Prepared:
        """Give every shape a slot and every guest its random number."""
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
        return Prepared(
            np.array(slots, dtype=np.int64),
            np.array(draws, dtype=np.uint64),
            np.array(stops, dtype=np.int8),
            devices,
            frozenset(policies),
            state.cache.generation,
        )

    def go(self, prepared: Prepared, start: int, count: int, *, after: Collection[int] = ()) -> RunResult:
        """Decide some of the guests and book what is placed, up to a refused one that stops the run.

        ``after`` are policies of runs before whose turns are not noted yet: they go on from there.
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
        """Tell the kernel where each round robin stands."""
        state = self._state
        for policy in policies:
            profile = state.profiles.profiles[policy]
            if profile.takes_turns:
                last = state.turns.last(profile.policy.name)
                state.profiles.last_key[policy] = state.cluster.order.key_up_to(last)
