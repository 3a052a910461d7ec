"""A kubelet for all nodes: starts bound pods, refuses those that do not fit, and ends deleted ones."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.testing.amounts import allocatable_of, has_ended, requests_of
from hostler.testing.apiserver.server import ApiServer
from hostler.testing.apiserver.store import Change, Key

__all__ = ["Kubelet"]

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
