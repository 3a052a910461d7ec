"""What a policy says about one pod and some nodes, for an unmodified kube-scheduler.

It uses an engine that follows the cluster and decides nothing. A queried pod is added as a guest and removed within one
call, so the engine's verdicts stay cached by shape: the second pod of a deployment costs little. If only one node is
left, the pod will go there. Until the cluster shows it, it is *assumed*: its room and devices are taken, so that the
next pod does not get the same GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count

import msgspec

from hostler.engine import Engine
from hostler.engine.preemption.dry_runs import is_resolvable
from hostler.errors import InputError
from hostler.model import Guest, GuestArrived, GuestLeft, GuestSpec, Reason

__all__ = ["Adviser", "Ranking"]

UNKNOWN = "the node is not known yet"
_ASKING = "asking:"
_ASSUMED = "assumed:"
_UNSEEN = frozenset({"devices"})  # kube-scheduler does not count these, so its preemption cannot free them


class Ranking(msgspec.Struct, frozen=True):
    """The nodes that fit, best first, with scores; why the others do not fit, and which no eviction would cure."""

    order: tuple[tuple[str, int | float], ...]
    refused: dict[str, str]
    unresolvable: frozenset[str]


class _AssumedPod(msgspec.Struct, frozen=True):
    uid: str  # the engine's uid of it
    spec: GuestSpec
    node: str
    devices: tuple[int, ...]
    until: int


class Adviser:
    """Answers by the engine's first policy."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._numbers = count(1)
        self._assumed: dict[str, _AssumedPod] = {}

    @property
    def assumed_count(self) -> int:
        """Return how many pods are assumed on a node."""
        return len(self._assumed)

    def rank(self, uid: str, spec: GuestSpec, names: Sequence[str]) -> Ranking:
        """Evaluate a pod on some nodes. Where the pod itself is assumed is ignored meanwhile."""
        spec, unheard = self._familiar(spec)
        if unheard is not None:
            refused = {name: unheard.text() if self._knows(name) else UNKNOWN for name in names}
            return Ranking((), refused, frozenset(refused))
        held = self._assumed.get(uid)
        self.forget(uid)
        try:
            with self._temporary_guest(spec) as guest:
                return self._rank(guest, uid, names)
        finally:
            if held is not None:
                self._hold(uid, held.spec, held.node, held.devices, held.until)

    def devices(self, uid: str, spec: GuestSpec, node: str) -> tuple[int, ...]:
        """Return the devices that a pod would get on a node; none if it requests none."""
        spec, unheard = self._familiar(spec)
        if unheard is not None:
            raise InputError(f"node {node!r:.80}: {unheard.text()}")
        held = self._assumed.get(uid)
        if held is not None and held.node == node and held.spec == spec:
            return held.devices
        if not spec.devices:
            return ()
        self.forget(uid)
        with self._temporary_guest(spec) as guest:
            taken = self._engine.choose_devices(guest, node, drawn_for=uid)
        if taken is None:
            raise InputError(f"node {node!r:.80} does not have the devices that the pod requests")
        return taken

    def assume(self, uid: str, spec: GuestSpec, node: str, devices: tuple[int, ...], until: int) -> None:
        """Count a pod on a node until the cluster shows it, or until a deadline."""
        self.forget(uid)
        self._hold(uid, self._familiar(spec)[0], node, devices, until)

    def forget(self, uid: str) -> None:
        """Stop counting an assumed pod: it is bound, gone, or goes elsewhere."""
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
        self._assumed[uid] = _AssumedPod(name, spec, node, devices, until)

    def _knows(self, node: str) -> bool:
        return self._engine.view.has_host(node)

    def _familiar(self, spec: GuestSpec) -> tuple[GuestSpec, Reason | None]:
        """Return the shape without names that the engine does not know, or why no node can take it.

        The engine never frees a name and has room for a limited number, and pods may use arbitrarily many.
        """
        view = self._engine.view
        for name, amount in spec.requests:
            if amount and not view.has_resource(name):
                return spec, Reason("resources", "insufficient", name)
        devices = []
        for ask in spec.devices:
            models = tuple(model for model in ask.models if view.has_device_model(model))
            if ask.models and not models:
                return spec, Reason("devices", "wrong_device_model", ask.kind)
            devices.append(msgspec.structs.replace(ask, models=models))
        requests = tuple(pair for pair in spec.requests if pair[1])
        return msgspec.structs.replace(spec, requests=requests, devices=tuple(devices)), None

    @contextmanager
    def _temporary_guest(self, spec: GuestSpec) -> Iterator[str]:
        """Make a pod a guest for the duration of the block; yield the uid of the guest."""
        name = f"{_ASKING}{next(self._numbers)}"
        self._engine.apply(GuestArrived(guest=Guest(name=name, uid=name, spec=spec)))
        try:
            yield name
        finally:
            self._engine.apply(GuestLeft(uid=name))

    def _rank(self, guest: str, uid: str, names: Sequence[str]) -> Ranking:
        ranking = self._engine.rank(guest, names, drawn_for=uid)
        texts = {reason: reason.text() for reason in set(ranking.rejected.values())}
        refused = {name: UNKNOWN for name in names if not self._knows(name)}
        refused |= {name: texts[reason] for name, reason in ranking.rejected.items()}
        stuck = {reason for reason in texts if not is_resolvable(reason) or reason.plugin in _UNSEEN}
        unresolvable = frozenset(name for name, reason in ranking.rejected.items() if reason in stuck)
        return Ranking(ranking.order, refused, unresolvable)
