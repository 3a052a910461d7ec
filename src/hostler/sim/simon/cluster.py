"""The cluster while an experiment runs: the engine decides, and beside it stands what every node has left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from hostler.engine import Engine, Registry
from hostler.errors import InputError
from hostler.model import (
    CPU,
    MEMORY,
    WHOLE_DEVICE,
    Bind,
    GuestArrived,
    GuestBound,
    GuestLeft,
    GuestsArrived,
    Host,
    HostsJoined,
    Labels,
    MixEntry,
    NamespaceChanged,
    Policy,
    PolicyChanged,
    amount_of,
)
from hostler.queries import decide_once
from hostler.sim.scorer.placer import ServicePlacer, ServiceUse
from hostler.sim.simon.folder import SimonPod
from hostler.sim.simon.scheduler_config import with_typical

__all__ = ["RunningPod", "SimonCluster", "SimonNode"]

_MOST_SEED = 2**63


@dataclass(frozen=True, slots=True)
class RunningPod:
    """A pod that runs: where, and on which gpus."""

    pod: SimonPod
    row: int
    devices: tuple[int, ...]

    @property
    def milli(self) -> int:
        """Return the milli of each of its gpus."""
        return self.pod.spec.devices[0].milli if self.pod.spec.devices else 0


@dataclass(slots=True)
class SimonNode:
    """What a node has left, and the pods on it in order of their coming."""

    host: Host
    row: int
    cpu: int
    memory: int
    gpus: list[int]
    pods: dict[str, RunningPod] = field(default_factory=dict)

    def take(self, running: RunningPod, sign: int) -> None:
        """Put a pod on the node (1), or take it off (-1)."""
        spec = running.pod.spec
        self.cpu -= sign * amount_of(spec.requests, CPU)
        self.memory -= sign * amount_of(spec.requests, MEMORY)
        for device in running.devices:
            self.gpus[device] -= sign * running.milli


class SimonCluster:
    """Nodes, and the pods on them."""

    def __init__(
        self,
        hosts: Sequence[Host],
        policy: Policy,
        seed: int,
        namespaces: Mapping[str, Labels],
        registry: Registry | None = None,
        service: ServiceUse | None = None,
    ) -> None:
        self.running: dict[str, RunningPod] = {}  # by namespace and name
        self.nodes = [
            SimonNode(host, row, amount_of(host.capacity, CPU), amount_of(host.capacity, MEMORY), _gpus(host))
            for row, host in enumerate(hosts)
        ]
        self._row_of = {host.name: row for row, host in enumerate(hosts)}
        self._uids: dict[str, str] = {}  # of the running pods, by key; a uid never comes back
        self._round = 0
        self._policy = policy
        self._engine = Engine([policy], 0, seed % _MOST_SEED, registry=registry)
        self._engine.apply_many(HostsJoined(hosts=tuple(hosts)))
        for name, labels in namespaces.items():
            self._engine.apply(NamespaceChanged(name=name, labels=labels))
        self._placer: ServicePlacer | None = None
        if service is not None:
            self._placer = ServicePlacer(self._engine, *service, asks_about_one=False)
            for host in hosts:
                self._placer.check_host(host.name)

    def adopt(self, pods: Iterable[SimonPod]) -> None:
        """Take in pods that already run somewhere."""
        for pod in pods:
            guest = msgspec.structs.replace(pod.guest, uid=pod.key)
            self._engine.apply(GuestArrived(guest=guest))
            self._start(pod, pod.key, guest.host, self._engine.decision(pod.key).devices)
            node = self.nodes[self._row_of[guest.host]]
            if node.cpu < 0 or node.memory < 0 or min(node.gpus, default=0) < 0:
                raise InputError(
                    f"pod {pod.key} is on node {guest.host!r}, which has no room for it",
                    hint="take its node away, so that it is placed",
                )

    def schedule(self, pods: Sequence[SimonPod]) -> list[SimonPod]:
        """Place pods one by one; return those that fit nowhere, which are gone."""
        self._round += 1
        if self._placer is not None:
            return self._ask_for_each(self._placer, pods)
        uids = [f"{pod.key}~{self._round}" for pod in pods]
        of_uid = dict(zip(uids, pods, strict=True))
        specs = {spec: number for number, spec in enumerate(dict.fromkeys(pod.spec for pod in pods))}
        self._engine.apply_many(
            GuestsArrived(
                specs=tuple(specs),
                spec_of=tuple(specs[pod.spec] for pod in pods),
                names=tuple(pod.guest.name for pod in pods),
                uids=tuple(uids),
            )
        )
        for action in decide_once(self._engine, self._round, len(pods)):
            if isinstance(action, Bind):
                self._engine.apply(GuestBound(uid=action.uid, host=action.host))
                self._start(of_uid.pop(action.uid), action.uid, action.host, action.devices)
        for uid in of_uid:
            self._engine.apply(GuestLeft(uid=uid))
        return list(of_uid.values())

    def _ask_for_each(self, placer: ServicePlacer, pods: Sequence[SimonPod]) -> list[SimonPod]:
        """Place pods one by one, each by the scores of the service; return those that fit nowhere."""
        failed: list[SimonPod] = []
        for pod in pods:
            uid = f"{pod.key}~{self._round}"
            bind = placer.decide(msgspec.structs.replace(pod.guest, uid=uid), self._round)
            if bind is None:
                failed.append(pod)
            else:
                self._engine.apply(GuestBound(uid=uid, host=bind.host))
                self._start(pod, uid, bind.host, bind.devices)
        return failed

    def remove(self, keys: Iterable[str]) -> None:
        """End pods that run."""
        for key in keys:
            running = self.running.pop(key)
            node = self.nodes[running.row]
            node.take(running, -1)
            del node.pods[key]
            self._engine.apply(GuestLeft(uid=self._uids.pop(key)))

    def measure_by(self, mix: tuple[MixEntry, ...]) -> None:
        """Decide by other typical pods from now on."""
        self._policy = with_typical(self._policy, mix)
        self._engine.apply(PolicyChanged(policies=(self._policy,)))

    def _start(self, pod: SimonPod, uid: str, host: str, devices: tuple[int, ...]) -> None:
        running = RunningPod(pod, self._row_of[host], devices)
        node = self.nodes[running.row]
        node.take(running, 1)
        node.pods[pod.key] = running
        self.running[pod.key] = running
        self._uids[pod.key] = uid


def _gpus(host: Host) -> list[int]:
    return [WHOLE_DEVICE] * len(host.devices)
