"""What a policy of ours would say to an unmodified kube-scheduler about one pod and some nodes.

It stands on an engine that follows the cluster and decides nothing. A pod that is asked about comes and goes as a
guest within one call, so the engine's verdicts stay cached by shape: the second pod of a deployment costs little.
Where the answer leaves one node only, the pod will go there; until the cluster says so it is *assumed*: it
takes its room and its devices, so that the next pod is not given the same gpu.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import msgspec
import numpy as np

from hostler.engine import Engine
from hostler.engine.preemption import is_resolvable
from hostler.engine.randomness import PLACEMENT, draw, name_hash
from hostler.engine.selection import score_table, tie_keys
from hostler.engine.shapes import Shape
from hostler.errors import InputError
from hostler.model import Guest, GuestArrived, GuestLeft, GuestSpec, Reason

__all__ = ["Adviser", "Ranking"]

UNKNOWN = "the node is not known yet"
_ASKING = "asking:"
_ASSUMED = "assumed:"
_UNSEEN = frozenset({"devices"})  # kube-scheduler does not count these, so no preemption of its own frees them


class Ranking(msgspec.Struct, frozen=True):
    """The nodes that fit, best first, with their scores; why the others do not, and which no eviction would cure."""

    order: tuple[tuple[str, int | float], ...]
    refused: dict[str, str]
    unresolvable: frozenset[str]


class _Assumed(msgspec.Struct, frozen=True):
    uid: str  # under which the engine has it
    spec: GuestSpec
    node: str
    devices: tuple[int, ...]
    until: int


class Adviser:
    """Answers by the engine's first policy."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers = count(1)
        self._assumed: dict[str, _Assumed] = {}

    @property
    def assumed(self) -> int:
        """Return how many pods are assumed on a node."""
        return len(self._assumed)

    def rank(self, uid: str, spec: GuestSpec, names: Sequence[str]) -> Ranking:
        """Judge a pod on some nodes; where it is assumed itself does not count meanwhile."""
        spec, unheard = self._familiar(spec)
        if unheard is not None:
            refused = {name: unheard.text() if self._knows(name) else UNKNOWN for name in names}
            return Ranking((), refused, frozenset(refused))
        held = self._assumed.get(uid)
        self.forget(uid)
        try:
            with self._asking(uid, spec) as (shape, number):
                return self._rank(shape, number, names)
        finally:
            if held is not None:
                self._hold(uid, held.spec, held.node, held.devices, held.until)

    def devices(self, uid: str, spec: GuestSpec, node: str) -> tuple[int, ...]:
        """Return the devices that a pod would get on a node; none where it asks for none."""
        spec, unheard = self._familiar(spec)
        if unheard is not None:
            raise InputError(f"node {node!r:.80}: {unheard.text()}")
        held = self._assumed.get(uid)
        if held is not None and held.node == node and held.spec == spec:
            return held.devices
        if not spec.devices:
            return ()
        self.forget(uid)
        with self._asking(uid, spec) as (shape, number):
            state = self._engine.state
            row = state.cluster.row_of.get(node)
            slot = state.cache.slot(shape, 0)
            codes, _ = state.cache.codes(slot)
            taken = state.cache.choose_devices(slot, row, number, shape.device_count) if row is not None else ()
            if row is None or codes[row] or len(taken) != shape.device_count:
                raise InputError(f"node {node!r:.80} has not the devices that the pod asks for")
            return taken

    def assume(self, uid: str, spec: GuestSpec, node: str, devices: tuple[int, ...], until: int) -> None:
        """Count a pod on a node until the cluster shows it, or until a time."""
        self.forget(uid)
        self._hold(uid, self._familiar(spec)[0], node, devices, until)

    def forget(self, uid: str) -> None:
        """Count a pod no longer: it is there in earnest, gone, or goes elsewhere."""
        held = self._assumed.pop(uid, None)
        if held is not None:
            self._engine.apply(GuestLeft(uid=held.uid))

    def expire(self, now: int) -> None:
        """Forget pods that were assumed for too long."""
        for uid in [uid for uid, held in self._assumed.items() if held.until <= now]:
            self.forget(uid)

    def _hold(self, uid: str, spec: GuestSpec, node: str, devices: tuple[int, ...], until: int) -> None:
        name = f"{_ASSUMED}{next(self._numbers)}"  # a uid never comes back
        guest = Guest(name=name, uid=name, spec=spec, host=node, on_devices=devices)
        self._engine.apply(GuestArrived(guest=guest))
        self._assumed[uid] = _Assumed(name, spec, node, devices, until)

    def _knows(self, node: str) -> bool:
        return node in self._engine.state.cluster.row_of

    def _familiar(self, spec: GuestSpec) -> tuple[GuestSpec, Reason | None]:
        """Return a shape without names that the engine never heard of, or why no node can take it.

        The engine keeps every name for good and takes so many only, and pods may invent as many as they like.
        """
        tables = self._engine.state.tables
        for name, amount in spec.requests:
            if amount and tables.resources.find(name) < 0:
                return spec, Reason("resources", "insufficient", name)
        devices = []
        for ask in spec.devices:
            models = tuple(model for model in ask.models if tables.models.find(model) >= 0)
            if ask.models and not models:
                return spec, Reason("devices", "wrong_device_model", ask.kind)
            devices.append(msgspec.structs.replace(ask, models=models))
        requests = tuple(pair for pair in spec.requests if pair[1])
        return msgspec.structs.replace(spec, requests=requests, devices=tuple(devices)), None

    @contextmanager
    def _asking(self, uid: str, spec: GuestSpec) -> Iterator[tuple[Shape, int]]:
        """Let a pod be a guest for a while; give its shape and its random number."""
        name = f"{_ASKING}{next(self._numbers)}"
        self._engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=spec)))
        try:
            state = self._engine.state
            yield state.shape(state.guests[name]), draw(state.seed, name_hash(uid), 0, PLACEMENT)
        finally:
            self._engine.apply(GuestLeft(uid=name))

    def _rank(self, shape: Shape, number: int, names: Sequence[str]) -> Ranking:
        state = self._engine.state
        slot = state.cache.slot(shape, 0)
        codes, _ = state.cache.codes(slot)
        known = {name: row for name in names if (row := state.cluster.row_of.get(name)) is not None}
        rows = np.fromiter(known.values(), dtype=np.int64, count=len(known))
        fits = codes[rows] == 0
        feasible = rows[fits]
        totals = score_table(state, slot, 0, feasible).totals  # normalised among the nodes in question
        keyed = sorted(
            (-total, tie_keys(state, 0, row, number)) for total, row in zip(totals, feasible.tolist(), strict=True)
        )
        texts, stuck = self._reasons(slot, codes[rows[~fits]].tolist())
        refused = dict.fromkeys((name for name in names if name not in known), UNKNOWN)
        unresolvable = set()
        for (name, row), fit in zip(known.items(), fits.tolist(), strict=True):
            if not fit:
                code = int(codes[row])
                refused[name] = texts[code]
                if code in stuck:
                    unresolvable.add(name)
        order = tuple((str(keys[-1]), -negative) for negative, keys in keyed)
        return Ranking(order, refused, frozenset(unresolvable))

    def _reasons(self, slot: int, codes: Sequence[int]) -> tuple[dict[int, str], set[int]]:
        """Return the words for some codes, and those of them that no eviction by kube-scheduler cures."""
        cache = self._engine.state.cache
        reasons = {code: cache.reason(slot, code) for code in set(codes)}
        stuck = {code for code, one in reasons.items() if not is_resolvable(one) or one.plugin in _UNSEEN}
        return {code: one.text() for code, one in reasons.items()}, stuck
