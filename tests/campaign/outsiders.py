"""What users, controllers and machines do in a campaign, directly on the server in memory. Used by ``play``."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from hostler.kube.memory import ApiServer
from hostler.kube.memory.controllers import allocatable_of, has_ended, requests_of
from tests.campaign.plan import Act, CampaignPlan
from tests.kube.memory.faults import Outage

__all__ = ["Outsiders"]

Json = dict[str, Any]


class Outsiders:
    """Everything outside the scheduler. ``touched``: nodes where others bound pods, or that shrank or went."""

    def __init__(self, server: ApiServer, plan: CampaignPlan, outage: Outage) -> None:
        self._server = server
        self._plan = plan
        self._outage = outage
        self._rng = random.Random(plan.seed + 1)
        self.touched: set[str] = set()
        self.disturbed: set[str] = set()  # pods that others ended or changed

    async def run(self) -> None:
        """Do everything at its time."""
        begun = asyncio.get_running_loop().time()
        for act in self._plan.acts:
            await asyncio.sleep(max(0.0, begun + act.at_s - asyncio.get_running_loop().time()))
            self._do(act)
            if self._plan.has_rival:
                self._bind_as_rival()

    def _do(self, act: Act) -> None:
        server = self._server
        match act.what:
            case "create":
                known = {"Pod": "pods", "PodGroup": "podgroups", "PodDisruptionBudget": "poddisruptionbudgets"}
                if server.get(known[act.item["kind"]], act.item["metadata"]["name"]) is None:
                    server.put(act.item)
            case "delete_pod":
                self._delete_pod(act.name)
            case "recreate_pod":
                self._recreate_pod(act.name)
            case "finish_pod":
                self._change_pod(act.name, lambda item: {**item, "status": {**item["status"], "phase": "Succeeded"}})
            case "ungate":
                self._change_pod(act.name, lambda item: {**item, "spec": {**item["spec"], "schedulingGates": []}})
            case "resize_group":
                self._resize_group(act.name, act.amount)
            case _:
                self._do_to_node(act)

    def _do_to_node(self, act: Act) -> None:
        server, node = self._server, self._server.get("nodes", act.name, "")
        if act.what == "add_node" and node is None:
            server.put({**act.item, "metadata": {**act.item["metadata"], "name": act.name}})
        elif act.what == "compact":
            server.compact()
        elif act.what == "outage":
            self._outage.begin(act.amount)
        elif node is None:
            return
        elif act.what == "cordon":
            server.change(
                "nodes",
                act.name,
                lambda item: {**item, "spec": {**item.get("spec", {}), "unschedulable": bool(act.amount)}},
                "",
            )
        elif act.what == "shrink_node":
            self.touched.add(act.name)
            smaller = {**node["status"]["allocatable"], "cpu": str(act.amount)}
            server.change(
                "nodes", act.name, lambda item: {**item, "status": {**item["status"], "allocatable": smaller}}, ""
            )
        elif act.what in ("remove_node", "replace_node"):
            self.touched.add(act.name)
            server.delete("nodes", act.name, "")
            for pod in server.objects("pods"):  # the garbage collector takes the pods of a node that is gone
                if pod["spec"].get("nodeName") == act.name:
                    self.disturbed.add(pod["metadata"]["name"])
                    server.delete("pods", pod["metadata"]["name"], grace_s=0)
            if act.what == "replace_node":
                server.put({**act.item, "metadata": {**act.item["metadata"], "name": act.name}})

    def _delete_pod(self, name: str) -> None:
        if self._server.get("pods", name) is not None:
            self.disturbed.add(name)
            self._server.delete("pods", name)

    def _recreate_pod(self, name: str) -> None:
        """Delete a pod at once and create another of the same name, as a StatefulSet does."""
        pod = self._server.get("pods", name)
        if pod is None:
            return
        self.disturbed.add(name)
        self._server.delete("pods", name, grace_s=0)
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        self._server.put({"kind": "Pod", "metadata": {"name": name, "labels": pod["metadata"]["labels"]}, "spec": spec})

    def _change_pod(self, name: str, how: Any) -> None:
        pod = self._server.get("pods", name)
        if pod is not None and not has_ended(pod):
            self.disturbed.add(name)
            self._server.change("pods", name, how)

    def _resize_group(self, name: str, count: int) -> None:
        if self._server.get("podgroups", name) is not None:
            policy = {"gang": {"minCount": count}}
            self.disturbed.add(name)
            self._server.change(
                "podgroups", name, lambda item: {**item, "spec": {**item["spec"], "schedulingPolicy": policy}}
            )

    def _bind_as_rival(self) -> None:
        """Bind the pods of another scheduler where the API shows room, without a second check."""
        for pod in self._server.objects("pods"):
            spec = pod["spec"]
            if spec["schedulerName"] != "rival" or spec.get("nodeName") or spec.get("schedulingGates"):
                continue
            nodes = [node for node in self._server.objects("nodes") if self._has_room(node, pod)]
            if nodes:
                name = self._rng.choice(nodes)["metadata"]["name"]
                self.touched.add(name)
                spec = {**pod["spec"], "nodeName": name}
                status = {**pod["status"], "conditions": [{"type": "PodScheduled", "status": "True"}]}
                self._server.put({**pod, "kind": "Pod", "spec": spec, "status": status})

    def _has_room(self, node: Json, pod: Json) -> bool:
        room = allocatable_of(node)
        for other in self._server.objects("pods"):
            if other["spec"].get("nodeName") == node["metadata"]["name"] and not has_ended(other):
                for resource, value in requests_of(other).items():
                    room[resource] = room.get(resource, 0) - value
        return all(value <= room.get(resource, 0) for resource, value in requests_of(pod).items())
