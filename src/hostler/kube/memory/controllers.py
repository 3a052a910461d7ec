"""Controllers for the API server in memory: a kubelet for all nodes, and the disruption controller.

The kubelet starts bound pods, rejects those that do not fit, and ends deleted ones. The disruption controller maintains
the status of budgets as kube-controller-manager does.

Requests of pods and capacities of nodes are computed here independently, since checks of a scheduler must not use its
own arithmetic.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from hostler.kube.memory.selectors import matches_selector
from hostler.kube.memory.server import ApiServer
from hostler.kube.memory.store import Key, StoredChange
from hostler.kube.memory.verbs.writes import write_over

__all__ = ["DisruptionController", "Kubelet", "allocatable_of", "has_ended", "requests_of"]

Json = dict[str, Any]
Amounts = dict[str, int]

_BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BILLION = 1_000_000_000


class Kubelet:
    """Reacts to changes after a delay. Create it inside the loop; a node that does not exist has no kubelet.

    A pod that does not fit fails as on a real node, so that a test sees that its scheduler overcommitted. With
    ``collect_s``, pods of a node that has been gone for that long are deleted, as kube-controller-manager does.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        start_s: float = 0.5,
        end_s: float = 30.0,
        refuses: bool = True,
        collect_s: float | None = None,
    ) -> None:
        self._server = server
        self._start_s = start_s
        self._end_s = end_s
        self._refuses = refuses
        self._collect_s = collect_s
        self._pods = server.routes.find("pods")
        self._nodes = server.routes.find("nodes")
        self._admitted: dict[str, tuple[str, dict[str, int]]] = {}  # uid: the node, and what it uses there
        self._seen: set[tuple[str, str]] = set()  # uid: its next step
        self._loop = asyncio.get_running_loop()
        self.refused: list[str] = []  # names of pods that did not fit
        server.store.listen(self._notice)
        self._plan_all()

    def _plan_all(self) -> None:
        for key, entry in self._server.store.entries(self._pods).items():
            self._plan(key, entry.item)

    def _notice(self, change: StoredChange) -> None:
        if change.kind is self._nodes and change.type != "MODIFIED":
            self._plan_all()
        if change.kind is not self._pods:
            return
        if change.type == "DELETED" or has_ended(change.entry.item):
            self._admitted.pop(change.entry.item["metadata"]["uid"], None)
        if change.type != "DELETED":
            self._plan(change.key, change.entry.item)

    def _plan(self, key: Key, item: Json) -> None:
        node, metadata = item["spec"].get("nodeName"), item["metadata"]
        if not node:
            return
        if self._is_gone(node):
            if self._collect_s is not None:
                self._later(self._collect_s, f"collect after {self._server.store.version}", key, item, self._collect)
            return
        grace = metadata.get("deletionGracePeriodSeconds", 0) if metadata.get("deletionTimestamp") else None
        if grace is not None:
            self._later(min(grace, self._end_s), f"end within {grace}", key, item, self._end)
        elif item["status"].get("phase") == "Pending":
            self._later(self._start_s, "start", key, item, self._begin)

    def _later(self, seconds: float, what: str, key: Key, item: Json, act: Any) -> None:  # noqa: ANN401 - a method
        mark = (item["metadata"]["uid"], what)
        if mark not in self._seen:
            self._seen.add(mark)
            self._loop.call_later(seconds, self._act, key, mark, act)

    def _act(self, key: Key, mark: tuple[str, str], act: Any) -> None:  # noqa: ANN401 - a method
        self._seen.discard(mark)
        entry = self._server.store.entries(self._pods).get(key)
        if entry is not None and entry.item["metadata"]["uid"] == mark[0]:
            act(key, entry.item)

    def _end(self, key: Key, _item: Json) -> None:
        self._server.delete("pods", key[1], key[0], grace_s=0)

    def _is_gone(self, node: str) -> bool:
        return ("", node) not in self._server.store.entries(self._nodes)

    def _collect(self, key: Key, item: Json) -> None:
        if self._is_gone(item["spec"]["nodeName"]):
            self._end(key, item)

    def _begin(self, key: Key, item: Json) -> None:
        is_over = item["metadata"].get("deletionTimestamp") or item["status"].get("phase") != "Pending"
        if is_over or self._is_gone(item["spec"]["nodeName"]):
            return
        lacking = self._missing_resource(item) if self._refuses else ""
        if lacking:
            self.refused.append(key[1])
            message = f"Pod was rejected: Node didn't have enough resource: {lacking}"
            self._write(key, {"phase": "Failed", "reason": f"OutOf{lacking}", "message": message})
            return
        self._admitted[item["metadata"]["uid"]] = (item["spec"]["nodeName"], requests_of(item))
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": self._server.store.timestamp()}
        known = [one for one in item["status"].get("conditions") or () if one.get("type") != "Ready"]
        started = self._server.store.timestamp()
        self._write(key, {"phase": "Running", "startTime": started, "conditions": [*known, ready]})

    def _write(self, key: Key, status: Json) -> None:
        self._server.change("pods", key[1], lambda item: {**item, "status": {**item["status"], **status}}, key[0])

    def _missing_resource(self, item: Json) -> str:
        """Return a resource that the node lacks for this pod beside the pods that run there, or an empty string."""
        name = item["spec"]["nodeName"]
        node = self._server.store.entries(self._nodes).get(("", name))
        room = allocatable_of(node.item) if node else {}
        asked = requests_of(item)
        for other_node, taken in self._admitted.values():
            if other_node == name:
                for resource, value in taken.items():
                    room[resource] = room.get(resource, 0) - value
        return next((resource for resource, value in asked.items() if value > room.get(resource, 0)), "")


class DisruptionController:
    """Computes budgets after a delay when pods or budgets change. Create it inside the loop."""

    def __init__(self, server: ApiServer, *, delay_s: float = 0.1) -> None:
        self._server = server
        self._delay_s = delay_s
        self._pods = server.routes.find("pods")
        self._budgets = server.routes.find("poddisruptionbudgets")
        self._is_planned = False
        self._loop = asyncio.get_running_loop()
        server.store.listen(self._notice)
        self._plan()

    def _notice(self, change: StoredChange) -> None:
        if change.kind in (self._pods, self._budgets):
            self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_later(self._delay_s, self._compute_all)

    def _compute_all(self) -> None:
        self._is_planned = False
        for key, entry in list(self._server.store.entries(self._budgets).items()):
            status = self._status(key, entry.item)
            if status != entry.item.get("status"):
                write_over(self._server.store, self._budgets, key, {**entry.item, "status": status})

    def _status(self, key: Key, budget: Json) -> Json:
        spec = budget["spec"]
        pods = [
            entry.item
            for (namespace, _), entry in self._server.store.entries(self._pods).items()
            if namespace == key[0]
            and matches_selector(spec.get("selector"), entry.item["metadata"].get("labels") or {})
            and entry.item["status"].get("phase") not in ("Succeeded", "Failed")
        ]
        expected = self._desired_count(spec, pods)
        if "maxUnavailable" in spec:
            desired = max(0, expected - _share(spec["maxUnavailable"], expected))
        else:
            desired = _share(spec.get("minAvailable", 1), expected)
        alive = {pod["metadata"]["name"] for pod in pods if not pod["metadata"].get("deletionTimestamp")}
        known = (budget.get("status") or {}).get("disruptedPods") or {}
        disrupted = {name: since for name, since in known.items() if name in alive}
        healthy = sum(1 for pod in pods if _is_healthy(pod) and pod["metadata"]["name"] not in disrupted)
        status: Json = {"observedGeneration": budget["metadata"].get("generation", 1)}
        status |= {"disruptionsAllowed": max(0, healthy - desired) if expected else 0, "currentHealthy": healthy}
        status |= {"desiredHealthy": desired, "expectedPods": expected}
        return status | ({"disruptedPods": disrupted} if disrupted else {})

    def _desired_count(self, spec: Json, pods: list[Json]) -> int:
        """Return the desired number of pods: from their owners if the budget is relative, else those that exist."""
        if isinstance(spec.get("minAvailable"), int):
            return len(pods)
        owners = {
            (owner["kind"], owner["name"], pod["metadata"]["namespace"])
            for pod in pods
            for owner in pod["metadata"].get("ownerReferences") or ()
            if owner.get("controller")
        }
        found = [self._server.get(f"{kind.lower()}s", name, space) for kind, name, space in sorted(owners)]
        replicas = [owner["spec"].get("replicas", 1) for owner in found if owner is not None]
        return sum(replicas) if replicas else len(pods)


def _share(value: int | str, whole: int) -> int:
    return math.ceil(int(value.rstrip("%")) * whole / 100) if isinstance(value, str) else value


def _is_healthy(pod: Json) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod["status"].get("conditions") or ()
    return any(known.get("type") == "Ready" and known.get("status") == "True" for known in conditions)


@lru_cache(maxsize=4096)
def amount(quantity: str | float) -> int:
    """Return a quantity in billionths of its unit."""
    text = str(quantity)
    number = text.rstrip("KMGTPEikmnu")
    suffix = text[len(number) :]
    factor = Decimal(_BINARY[suffix]) if suffix in _BINARY else Decimal(10) ** _DECIMAL[suffix]
    return int(Decimal(number) * factor * _BILLION)


def _read(quantities: Json | None) -> Amounts:
    return {name: amount(value) for name, value in (quantities or {}).items()}


def _add(*parts: Amounts) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def _largest(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = max(total.get(name, 0), value)
    return total


def _asks(container: Json) -> Amounts:
    return _read((container.get("resources") or {}).get("requests"))


def requests_of(pod: Json) -> Amounts:
    """Return the resources that a pod uses on a node, with one of ``pods``."""
    spec = pod["spec"]
    sidecars: Amounts = {}
    peaks: list[Amounts] = []
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars = _add(sidecars, _asks(container))
            peaks.append(sidecars)
        else:
            peaks.append(_add(sidecars, _asks(container)))
    running = _add(sidecars, *(_asks(container) for container in spec.get("containers") or ()))
    total = _largest((running, *peaks))
    total |= _read((spec.get("resources") or {}).get("requests"))
    return _add(total, _read(spec.get("overhead")), {"pods": _BILLION})


def allocatable_of(node: Json) -> Amounts:
    """Return the allocatable resources of a node."""
    return _read((node.get("status") or {}).get("allocatable"))


def has_ended(pod: Json) -> bool:
    """Return whether a pod no longer uses resources."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
