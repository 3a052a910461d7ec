"""Controllers beside the API server in memory: a kubelet for all nodes, and the one of disruption budgets.

The kubelet starts bound pods, rejects those that do not fit, and ends deleted ones. The other one keeps the status of
budgets as kube-controller-manager does.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from hostler.kube.memory.amounts import allocatable_of, has_ended, requests_of
from hostler.kube.memory.selectors import matches_selector
from hostler.kube.memory.server import ApiServer
from hostler.kube.memory.store import Change, Key
from hostler.kube.memory.writing import write_over

__all__ = ["DisruptionController", "Kubelet"]

Json = dict[str, Any]


class Kubelet:
    """Acts on changes, after a while. Make it inside the loop; a node that does not exist has no kubelet.

    A pod that does not fit fails as on a real node, so that a test sees that its scheduler overcommitted. With
    ``collect_s``, pods of a node that is gone for so long are removed, as kube-controller-manager does.
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
        self._admitted: dict[str, tuple[str, dict[str, int]]] = {}  # uid: node and what it takes there
        self._seen: set[tuple[str, str]] = set()  # uid and what is planned for it now
        self._loop = asyncio.get_running_loop()
        self.refused: list[str] = []  # names of pods that did not fit
        server.store.listen(self._notice)
        self._plan_all()

    def _plan_all(self) -> None:
        for key, entry in self._server.store.entries(self._pods).items():
            self._plan(key, entry.item)

    def _notice(self, change: Change) -> None:
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
        lacking = self._lacking(item) if self._refuses else ""
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

    def _lacking(self, item: Json) -> str:
        """Return a resource that the node has not enough of for this pod beside those that it took, or nothing."""
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
    """Computes budgets a while after pods or budgets change. Make it inside the loop."""

    def __init__(self, server: ApiServer, *, delay_s: float = 0.1) -> None:
        self._server = server
        self._delay_s = delay_s
        self._pods = server.routes.find("pods")
        self._budgets = server.routes.find("poddisruptionbudgets")
        self._is_planned = False
        self._loop = asyncio.get_running_loop()
        server.store.listen(self._notice)
        self._plan()

    def _notice(self, change: Change) -> None:
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
        expected = self._expected(spec, pods)
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

    def _expected(self, spec: Json, pods: list[Json]) -> int:
        """Count as the owners of the pods do where the budget is relative; else what is there."""
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
