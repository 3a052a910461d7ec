"""The controller of disruption budgets: keeps their status, as kube-controller-manager does."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from hostler.testing.apiserver.selectors import matches_selector
from hostler.testing.apiserver.server import ApiServer
from hostler.testing.apiserver.store import Change, Key
from hostler.testing.apiserver.writing import write_over

__all__ = ["DisruptionController"]

Json = dict[str, Any]


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
