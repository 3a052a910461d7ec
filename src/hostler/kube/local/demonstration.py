"""The scenes of ``hostler kube demo``: pods that a scheduler places on a local cluster, and what happened to them.

Each scene creates pods on nodes that are otherwise empty, waits until the scheduler has decided, shows the pods as the
API server has them, and deletes them. The texts are for readers who see the scheduler for the first time.

Invariant: a scene waits for states, never for a time, and fails if the scheduler has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any

import msgspec

from hostler.errors import UnavailableError
from hostler.kube.api.failures import ApiError
from hostler.kube.local.setup import Api

__all__ = ["DEMO_NODES", "DEMO_SETTINGS", "Demonstration", "PodRow"]

DEMO_NODES = 5  # of 8 CPUs, as ``nodes`` makes them
_ALONE = "one-per-node-scheduler"
DEMO_SETTINGS = {
    "apiVersion": "hostler/v1",
    "kind": "Scheduler",
    "profiles": [
        {"scheduler_name": "hostler-scheduler", "policy": "kubernetes"},
        {"scheduler_name": _ALONE, "policy": {"name": "alone", "extends": "kubernetes", "one_guest_per_host": True}},
    ],
    "listen": "none",
}

_TICK_S = 0.1
_PODS = "/api/v1/namespaces/default/pods"
_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"

Object = dict[str, Any]


class PodRow(msgspec.Struct, frozen=True):
    """A pod as it is shown: the node, or why it waits."""

    name: str
    priority: int
    node: str
    why: str

    @property
    def has_waited(self) -> bool:
        """Return whether the scheduler has rejected the pod."""
        return not self.node and bool(self.why)


class Demonstration:
    """All scenes on one cluster; ``check`` raises if the scheduler has ended."""

    def __init__(
        self,
        api: Api,
        *,
        say: Callable[[str], None],
        show: Callable[[list[PodRow]], None],
        check: Callable[[], None],
        patience_s: float,
    ) -> None:
        self._api = api
        self._say = say
        self._show = show
        self._check = check
        self._patience_s = patience_s

    def play(self) -> None:
        """Play all scenes."""
        scenes = (self._show_priority, self._show_one_per_node, self._show_gang, self._show_preemption)
        for number, scene in enumerate(scenes):
            if number:
                self._delete_pods()
            scene()
            self._say("")

    # -- scenes ----------------------------------------------------------------------------------------------------

    def _show_priority(self) -> None:
        self._say("== Priority: the most important pod goes first\n")
        self._say("Eight pods of 5 CPUs come to five nodes of 8 CPUs. Five get a node, three wait.")
        self._create(_pod(f"batch-{number}", "5") for number in range(8))
        self._wait(lambda rows: _placed(rows) == 5 and _rejected(rows) == 3)
        self._say("The pod web has a higher priority. It may evict no pod, so it waits too.")
        self._api.create(_CLASSES, _priority_class("first-in-line", 1000, preemptionPolicy="Never"))
        self._create([_pod("web", "5", priorityClassName="first-in-line")])
        rows = self._wait(lambda rows: _row(rows, "web").has_waited)
        ended = next(row.name for row in rows if row.node)
        self._say(f"{ended} ends. Its node goes to web, although the others have waited longer:\n")
        self._delete(ended)
        self._show(self._wait(lambda rows: bool(_row(rows, "web").node)))

    def _show_one_per_node(self) -> None:
        self._say("== One pod on each node, whatever its size\n")
        self._say("Six small pods name a scheduler whose policy gives a node to one pod. The sixth waits:\n")
        self._create(_pod(f"alone-{number}", "100m", schedulerName=_ALONE) for number in range(6))
        self._show(self._wait(lambda rows: _placed(rows) == 5 and _rejected(rows) == 1))

    def _show_gang(self) -> None:
        self._say("== A gang: all of its pods, or none\n")
        if not self._has_groups:
            self._say("Left out: this API server has no PodGroups. They are built in since Kubernetes 1.37.")
            return
        self._say("too-big needs six pods of 7 CPUs, and five would fit. None gets a node, and nothing is held for it.")
        self._api.create(_GROUPS, _pod_group("too-big", 6))
        self._create(_pod(f"too-big-{number}", "7", group="too-big") for number in range(6))
        self._wait(lambda rows: _rejected(rows) == 6)
        self._say("train needs four pods of 4 CPUs. All four get a node at once:\n")
        self._api.create(_GROUPS, _pod_group("train", 4))
        self._create(_pod(f"train-{number}", "4", group="train") for number in range(4))
        self._show(self._wait(lambda rows: _placed(rows) == 4))

    def _show_preemption(self) -> None:
        self._say("== Preemption: a more important pod, then a gang, evicts what it must\n")
        self._say("Five pods of 7 CPUs fill the nodes. The pod urgent needs 6 CPUs: one pod makes room for it.")
        self._create(_pod(f"low-{number}", "7") for number in range(DEMO_NODES))
        self._wait(lambda rows: _placed(rows) == DEMO_NODES)
        self._api.create(_CLASSES, _priority_class("urgent", 100_000))
        self._create([_pod("urgent", "6", priorityClassName="urgent")])
        self._wait(lambda rows: bool(_row(rows, "urgent").node))
        crew = [f"crew-{number}" for number in range(3)] if self._has_groups else []
        if crew:
            self._say("Then a gang of three pods of 5 CPUs comes: three more make room, all at once.")
            self._api.create(_CLASSES, _priority_class("crew", 50_000))
            self._api.create(_GROUPS, _pod_group("crew", 3, priorityClassName="crew"))
            self._create(_pod(name, "5", priorityClassName="crew", group="crew") for name in crew)
        self._say("")
        self._show(self._wait(lambda rows: all(_row(rows, name).node for name in crew)))
        self._say("")
        for line in self._evictions(1 + len(crew)):
            self._say(line)

    @cached_property
    def _has_groups(self) -> bool:
        """Return whether the API server has PodGroups."""
        return self._api.send("GET", _GROUPS)[0] == 200

    def _evictions(self, count: int) -> list[str]:
        """Return a line for each evicted pod, from its event."""
        found: list[str] = []

        def is_complete() -> bool:
            items = self._api.call("GET", _EVENTS)["items"]
            events = [one for one in items if one["reason"] == "Preempted"]
            found[:] = [f"{one['regarding']['name']} was evicted: {one['note']}" for one in events]
            return len(found) >= count

        self._until(is_complete, "the events of the evictions")
        uids = {item["metadata"]["uid"]: item["metadata"]["name"] for item in self._api.call("GET", _PODS)["items"]}
        for uid, name in uids.items():  # events name the preemptor by its uid, as those of kube-scheduler do
            found = [line.replace(uid, name) for line in found]
        return sorted(found)

    # -- the cluster -----------------------------------------------------------------------------------------------

    def _create(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            self._until(partial(self._is_admitted, pod), f"the admission of {pod['metadata']['name']}")

    def _is_admitted(self, pod: Object) -> bool:
        """Create a pod; return False while the API server does not know its new priority class yet."""
        try:
            self._api.create(_PODS, pod)
        except ApiError as error:
            if error.status == 403 and "no PriorityClass" in error.text:
                return False
            raise
        return True

    def _delete(self, name: str) -> None:
        self._api.call("DELETE", f"{_PODS}/{name}")

    def _delete_pods(self) -> None:
        """Delete all pods, and wait until their nodes are empty."""
        for row in self._rows():
            status, _ = self._api.send("DELETE", f"{_PODS}/{row.name}?gracePeriodSeconds=0")
            if status not in (200, 404):
                raise UnavailableError(f"pod {row.name} could not be deleted: {status}", hint="try again")
        self._until(lambda: not self._rows(), "the end of the pods of the last scene")

    def _rows(self) -> list[PodRow]:
        items = self._api.call("GET", _PODS)["items"]
        return sorted((_as_row(item) for item in items), key=lambda row: (-row.priority, row.name))

    def _wait(self, is_reached: Callable[[list[PodRow]], bool]) -> list[PodRow]:
        """Wait until the pods are as they should be; return them."""
        rows: list[PodRow] = []

        def look() -> bool:
            rows[:] = self._rows()
            return is_reached(rows)

        try:
            self._until(look, "the decisions of this scene")
        except UnavailableError:
            self._show(rows)
            raise
        return rows

    def _until(self, is_true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._patience_s
        while not is_true():
            self._check()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"the demo waited {self._patience_s:.0f} s for {what}", hint="is the machine busy? try again"
                )
            time.sleep(_TICK_S)


def _as_row(item: Object) -> PodRow:
    conditions = item["status"].get("conditions", ())
    whys = [one.get("message", "") for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False"]
    spec = item["spec"]
    node = spec.get("nodeName", "")
    return PodRow(item["metadata"]["name"], spec.get("priority", 0), node, "" if node else "".join(whys))


def _row(rows: Iterable[PodRow], name: str) -> PodRow:
    return next((row for row in rows if row.name == name), PodRow(name, 0, "", ""))


def _placed(rows: Iterable[PodRow]) -> int:
    return sum(bool(row.node) for row in rows)


def _rejected(rows: Iterable[PodRow]) -> int:
    return sum(row.has_waited for row in rows)


def _pod(name: str, cpu: str, *, group: str = "", **spec: object) -> Object:
    container = {"name": "main", "image": "registry.example/demo:1", "resources": {"requests": {"cpu": cpu}}}
    fields: Object = {"schedulerName": "hostler-scheduler", "terminationGracePeriodSeconds": 1, **spec}
    if group:
        fields["schedulingGroup"] = {"podGroupName": group}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **fields},
    }


def _pod_group(name: str, least: int, **spec: object) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}, **spec},
    }


def _priority_class(name: str, value: int, **more: object) -> Object:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, **more}
