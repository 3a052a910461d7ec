"""Give cases to a real kube-scheduler, one pod after the other, and collect its decisions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.http import client_for
from hostler.kube.api.resources import (
    BUDGETS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from hostler.kube.local import LocalCluster
from hostler.kube.local.setup import Api
from tests.kube.oracle.answers import (
    SEEN,
    Objects,
    ScheduledCase,
    SchedulerAnswer,
    Seen,
    message_of,
    node_of,
    place_of_pod,
    victim_count,
)
from tests.kube.oracle.clusters import Case, place_of
from tests.kube.oracle.logs import Log
from tests.kube.oracle.names import NAMESPACE_LABELS, OVERHEAD, RUNTIME_CLASS
from tests.kube.oracle.process import Onlooker, kube_scheduler
from tests.wait import GIVE_UP_S

__all__ = ["ReferenceScheduler", "asker"]

SETTLE_S = 0.03  # for its caches, which follow several watches, to have seen the cluster; see `testing`
_ENOUGH_S = 3.0  # to be bound when all victims are gone
_QUIET_S = 0.2  # after this, no other pod is asked to leave
_OWNERS: dict[str, Resource[Any]] = {
    kind.kind: kind for kind in (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)
}
_LISTED = (NAMESPACES, *_OWNERS.values(), BUDGETS, NODES)


class ReferenceScheduler:
    """A cluster with a kube-scheduler that decides cases."""

    def __init__(self, api: Api, client: KubeClient, log: Log, onlooker: Onlooker) -> None:
        self._api = api  # for what the client has no words for
        self._client = client
        self._log = log
        self._onlooker = onlooker
        self._states: dict[str, list[Seen]] = {}  # of each pod, by uid, in order
        self._gone: list[str] = []
        self._leaving: dict[str, str] = {}  # pods that were told to go, and where they are
        self._news = asyncio.Event()

    def prepare(self) -> None:
        """Create the objects that all cases share."""
        for name, labels in NAMESPACE_LABELS.items():
            self._api.create("/api/v1/namespaces", {"metadata": {"name": name}})
            self._api.call("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}})
        runtime = {"metadata": {"name": RUNTIME_CLASS}, "handler": "any", "overhead": {"podFixed": OVERHEAD}}
        self._api.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)

    async def ask(self, case: Case, *, settle_s: float = SETTLE_S) -> list[ScheduledCase]:
        """Create the cluster of a case, let its pods be scheduled one by one, and delete everything."""
        try:
            await self._make(case)
            await asyncio.sleep(settle_s)
            listed = await self._list(_LISTED)
            found = []
            for body in case.pending:
                objects = listed | await self._list((PODS,))
                # Before the pod is there: its victims may be gone before we hear that it was created.
                gone, leaving = len(self._gone), set(self._leaving)
                pod = await self._client.create(PODS, body["metadata"]["namespace"], body)
                answer = await self._answer(pod, gone, leaving, is_slow=case.is_slow)
                found.append(ScheduledCase(answer, objects, pod))
            return found
        finally:
            await self._clear(case)

    async def follow(self) -> None:
        """Watch pods for ever."""
        while True:
            version = (await self._client.list(SEEN)).version
            async for batch in self._client.watch(SEEN, version, timeout_s=3600, silence_s=3600):
                for change in batch:
                    if isinstance(change.item, Seen) and change.kind == "deleted":
                        self._gone.append(place_of_pod(change.item))
                    elif isinstance(change.item, Seen):
                        self._states.setdefault(change.item.metadata.uid, []).append(change.item)
                        if change.item.metadata.deletion_timestamp:
                            self._leaving.setdefault(place_of_pod(change.item), node_of(change.item))
                self._news.set()

    # -- one pod ---------------------------------------------------------------------------------------------------

    async def _answer(self, pod: Any, gone: int, leaving: set[str], *, is_slow: bool) -> SchedulerAnswer:
        uid, place = pod.metadata.uid, place_of_pod(pod)
        states = self._states.setdefault(uid, [])
        await self._until(lambda: any(node_of(one) or message_of(one) for one in states), f"a verdict on {place}")
        refused = next((one for one in states if message_of(one)), None)
        if refused is None:
            await self._until(lambda: place in self._log.bound, f"the log to tell that {place} is bound")
            passed, scores = self._onlooker.passed.get(uid, [[]])[0], self._log.scores.get(place, {})
            return SchedulerAnswer(place, sorted(passed), scores, node_of(states[-1]))
        answer = SchedulerAnswer(
            place, message=message_of(refused), nominated=refused.status.get("nominatedNodeName", "")
        )
        if not answer.nominated:
            await self._take_away(pod)
        elif is_slow:
            answer.victims = await self._told_to_go(answer, leaving)
        else:
            count = victim_count(answer)
            await self._until(lambda: len(self._gone) - gone >= count, f"{count} victims of {place} to go")
            answer.victims = sorted(self._gone[gone:])
            try:
                await self._until(lambda: any(map(node_of, states)), f"{place} to be bound", _ENOUGH_S)
                answer.node = node_of(states[-1])
            except AssertionError:
                # Its queue forgets such a pod for minutes when the victim that mattered goes before the last one.
                await self._take_away(pod)
        return answer

    async def _take_away(self, pod: Any) -> None:
        """Delete a waiting pod: it would be retried at later changes, between the pods after it."""
        place = place_of_pod(pod)
        await self._client.delete(PODS, pod.metadata.namespace, pod.metadata.name, grace_s=0)
        await self._until(lambda: place in self._gone, f"{place} to go")

    async def _told_to_go(self, answer: SchedulerAnswer, before: set[str]) -> list[str]:
        """Wait until all victims are being deleted, and name them, except those deleted before."""

        # A pod that loses its node to this one may look for others to evict elsewhere.
        def here() -> set[str]:
            return {place for place, node in self._leaving.items() if node == answer.nominated}

        count = victim_count(answer) - len(here() & before)
        await self._until(lambda: len(here() - before) >= count, f"victims of {answer.pod} to go")
        if here() & before:
            await asyncio.sleep(_QUIET_S)
        return sorted(here() - before)

    async def _until(self, is_so: Callable[[], bool], what: str, give_up_s: float = GIVE_UP_S) -> None:
        try:
            async with asyncio.timeout(give_up_s):
                while not is_so():
                    self._news.clear()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), 0.01)
        except TimeoutError:
            last = "\n".join(self._log.others[-20:])
            seen = f"it had seen {sorted(self._gone)} go; the log ends"
            raise AssertionError(f"waited {give_up_s:.0f} s for {what}; {seen}\n{last}") from None

    # -- the cluster -----------------------------------------------------------------------------------------------

    async def _make(self, case: Case) -> None:
        await self._create(
            *((NODES, body) for body in case.nodes),
            *((_OWNERS[body["kind"]], body) for body in case.owners),
            *((BUDGETS, body) for body in case.budgets),
        )
        await self._create(*((PODS, body) for body in case.running))
        budgets = {place_of(body) for body in case.budgets}
        await asyncio.gather(
            *(
                self._set_status(BUDGETS if place in budgets else PODS, place, body)
                for place, body in case.statuses.items()
                if body
            )
        )
        await asyncio.gather(*(self._delete(PODS, place) for place in case.leaving))

    async def _set_status(self, kind: Resource[Any], place: str, status: dict[str, Any]) -> None:
        namespace, name = place.split("/")
        await self._client.patch(kind, namespace, name, {"status": status}, part="status")

    async def _delete(self, kind: Resource[Any], place: str) -> None:
        namespace, name = place.split("/")
        await self._client.delete(kind, namespace, name)

    async def _create(self, *bodies: tuple[Resource, dict[str, Any]]) -> None:
        await asyncio.gather(
            *(self._client.create(kind, body["metadata"].get("namespace", ""), body) for kind, body in bodies)
        )

    async def _list(self, kinds: Iterable[Resource]) -> Objects:
        kinds = tuple(kinds)
        found = await asyncio.gather(*(self._client.list(kind) for kind in kinds))
        assert not any(isinstance(item, UndecodableObject) for listing in found for item in listing.items)
        return {kind.kind: listing.items for kind, listing in zip(kinds, found, strict=True)}

    async def _clear(self, case: Case) -> None:
        await asyncio.to_thread(self._clear_collections)
        named = [*((_OWNERS[body["kind"]], body) for body in case.owners), *((BUDGETS, body) for body in case.budgets)]
        await asyncio.gather(*(self._delete(kind, place_of(body)) for kind, body in named))
        self._states.clear()
        self._gone.clear()
        self._leaving.clear()
        self._log.forget()
        self._onlooker.passed.clear()

    def _clear_collections(self) -> None:
        for name in NAMESPACE_LABELS:
            self._api.call("DELETE", f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
        self._api.call("DELETE", "/api/v1/nodes")


@contextlib.asynccontextmanager
async def asker(cluster: LocalCluster, folder: Path) -> AsyncIterator[ReferenceScheduler]:
    """Yield a reference scheduler on a cluster without a scheduler."""
    log, onlooker = Log(), Onlooker()
    client = client_for(cluster.kubeconfig(), user_agent="oracle")
    try:
        async with onlooker.serve() as address, kube_scheduler(cluster, folder, address, log):
            with cluster.api() as api:
                found = ReferenceScheduler(api, client, log, onlooker)
                found.prepare()
                following = asyncio.ensure_future(found.follow())
                try:
                    yield found
                finally:
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)
    finally:
        await client.close()
