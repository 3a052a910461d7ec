"""Compare our copies of the cluster with the API server, report differences, and repair them.

There are three copies: the reflectors' collections, the watched cluster made from them, and the engine's allocations.
Updates are always under way between them, so only a difference that is seen twice in a row, with the same values,
counts. The comparer should never find anything; a bug of ours then costs minutes and not a lost pod. Used by
``process``, from time to time and on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.decoding import key_of, uid_of, version_of
from hostler.kube.api.reflector import ObjectUpdate, Reflector
from hostler.kube.api.resources import NODES, PODS
from hostler.kube.scheduler.actions.binder import Binder
from hostler.kube.scheduler.loop import Loop
from hostler.manifests.places import node_place, pod_place
from hostler.model import BindFailed, Event, GuestArrived, GuestChanged, GuestLeft, HostJoined, HostLeft
from hostler.runtime.engine_thread import Executor
from hostler.runtime.tasks import run_parts

__all__ = ["Comparer", "ComparerCounts", "CopyDifference", "follow"]

_SETTLE_S = 5.0  # between two comparisons: longer than a bind takes, or a watch event
_EVERY_S = 600.0
_UNKNOWN = "nothing"
_ORDER = ("collection", "world", "engine")

Cure = Callable[[], None]


class CopyDifference(msgspec.Struct, frozen=True):
    """One wrong value, and the copy that has it; ``is_now`` is the value in that copy."""

    copy: Literal["collection", "world", "engine"]
    what: str
    should_be: str
    is_now: str

    def __str__(self) -> str:
        return f"{self.what} is {self.is_now} in our {self.copy} and should be {self.should_be}"


class ComparerCounts(msgspec.Struct):
    """Results of comparisons so far."""

    rounds: int = 0
    found: int = 0
    failed: int = 0  # comparisons without a response of the server


async def follow(reflector: Reflector[Any], doubt: asyncio.Event) -> None:
    """Run a reflector, and let it list again when its copy is doubted; cancel it to end."""
    while True:
        await run_parts({"following": reflector.run(), "doubting": doubt.wait()})
        doubt.clear()
        reflector.version = ""


class Comparer:
    """Compares all copies. ``relist`` makes a reflector list again."""

    def __init__(
        self,
        client: KubeClient,
        reflectors: Mapping[str, Reflector[Any]],
        loop: Loop,
        binder: Binder,
        executor: Executor,
        *,
        relist: Callable[[Reflector[Any]], None],
        say: Callable[[str], None] = lambda text: None,
        settle_s: float = _SETTLE_S,
    ) -> None:
        self.counts = ComparerCounts()
        self.last: tuple[CopyDifference, ...] = ()
        self._client = client
        self._reflectors = reflectors
        self._loop = loop
        self._binder = binder
        self._executor = executor
        self._relist = relist
        self._say = say
        self._settle_s = settle_s
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Compare now instead of later."""
        self._asked.set()

    async def run(self, every_s: float = _EVERY_S) -> None:
        """Compare from time to time and on demand; cancel it to end."""
        while True:
            was_asked = True
            try:
                async with asyncio.timeout(every_s):
                    await self._asked.wait()
            except TimeoutError:
                was_asked = False
            self._asked.clear()
            try:
                found = await self.compare()
            except HostlerError as error:
                self.counts.failed += 1
                self._say(f"comparison failed: {error.message}")
                continue
            for difference in found:
                self._say(f"found and repaired: {difference}")
            if was_asked and not found:
                self._say("no differences from the API server")

    async def compare(self) -> tuple[CopyDifference, ...]:
        """Compare, repair the differences, and return them.

        Each copy is made from the one before it. If several differ, a later one may be right and merely differ from a
        wrong one, so only the first is repaired now, and the others are compared again soon.
        """
        self.counts.rounds += 1
        found = await self._look()
        if found:
            await asyncio.sleep(self._settle_s)
            again = await self._look()
            found = {difference: cure for difference, cure in again.items() if difference in found}
        first = min((difference.copy for difference in found), key=_ORDER.index, default="")
        self.last = tuple(difference for difference in found if difference.copy == first)
        for cure in dict.fromkeys(found[difference] for difference in self.last):
            cure()
        if len(self.last) < len(found):
            self.ask()
        self.counts.found += len(self.last)
        return self.last

    async def _look(self) -> dict[CopyDifference, Cure]:
        found: dict[CopyDifference, Cure] = {}
        for reflector in self._reflectors.values():
            if not reflector.is_absent:
                found |= await self._collection(reflector)
        found |= dict(self._cluster())
        booked = await self._executor.run(self._books)
        return found | dict(self._engine(*booked))

    # -- collections -----------------------------------------------------------------------------------------------

    async def _collection(self, reflector: Reflector[Any]) -> dict[CopyDifference, Cure]:
        """Compare a reflector's copy with a new list."""
        listing = await self._client.list(reflector.resource)
        shown = {key_of(item): _identity(item) for item in listing.items}
        ours = {key: _identity(item) for key, item in reflector.store.items()}

        def cure() -> None:
            self._relist(reflector)

        kind = reflector.resource.kind.lower()
        return {
            CopyDifference("collection", f"{kind} {'/'.join(key)}", should_be, is_now): cure
            for key, should_be, is_now in _unequal(shown, ours)
        }

    # -- the world -------------------------------------------------------------------------------------------------

    def _cluster(self) -> Iterator[tuple[CopyDifference, Cure]]:
        """Compare the world with what it was made from."""
        cluster, problems = self._loop.cluster, self._loop.cluster.problems()
        pods, nodes = self._reflectors[PODS.kind], self._reflectors[NODES.kind]
        shown = {
            key: f"{item.metadata.uid} on {item.spec.node_name or _UNKNOWN}"
            for key, item in pods.store.items()
            if not isinstance(item, UndecodableObject) and item.metadata.uid and pod_place(*key) not in problems
        }
        ours = {
            (view.namespace, view.name): f"{view.uid} on {view.node or _UNKNOWN}"
            for view in cluster.pods.values()
            if pod_place(view.namespace, view.name) not in problems
        }
        for key, should_be, is_now in _unequal(shown, ours):
            yield CopyDifference("world", pod_place(*key), should_be, is_now), self._again(pods, key)
        known = {("", name): host.uid for name, host in cluster.hosts.items()}
        listed = {key: uid_of(item) for key, item in nodes.store.items() if node_place(key[1]) not in problems}
        for key, should_be, is_now in _unequal(listed, known):
            yield CopyDifference("world", node_place(key[1]), should_be, is_now), self._again(nodes, key)

    def _again(self, reflector: Reflector[Any], key: tuple[str, str]) -> Cure:
        """Feed the current version of an object to the watched cluster once more."""
        return lambda: self._loop.observe(reflector.resource, [ObjectUpdate(key, None, reflector.store.get(key))])

    # -- the engine ------------------------------------------------------------------------------------------------

    def _books(self) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
        engine = self._loop.core.engine
        guests = {uid: (record.host, engine.state_of(record)) for uid, record in engine.view.records.items()}
        return guests, {host.name: host.uid for host in engine.hosts()}

    def _engine(
        self, guests: Mapping[str, tuple[str, str]], hosts: Mapping[str, str]
    ) -> Iterator[tuple[CopyDifference, Cure]]:
        """Compare the engine's allocations with the facts that it was sent."""
        cluster = self._loop.cluster
        told = {uid: guest for uid in cluster.pods if (guest := cluster.guest(uid)) is not None}
        for uid in {**told, **guests}:
            guest, (host, state) = told.get(uid), guests.get(uid, ("", ""))
            where = f"{state} on {host}" if host else state or _UNKNOWN
            fact: Event | None = None
            if guest is None:
                fact = GuestLeft(uid=uid)
            elif not state:
                fact = GuestArrived(guest=guest)
            elif guest.host and guest.host != host:
                fact = GuestChanged(guest=guest)
            elif not guest.host and state == "assumed" and not self._binder.has(uid):
                fact = BindFailed(uid=uid, host=host, reason="its bind was forgotten")
            if fact is not None:
                should_be = _UNKNOWN if guest is None else f"on {guest.host}" if guest.host else "waiting"
                yield CopyDifference("engine", f"guest {uid}", should_be, where), self._sender_of(fact)
        for name in {**cluster.hosts, **hosts}:
            known = cluster.hosts.get(name)
            if known is None:
                yield (
                    CopyDifference("engine", node_place(name), _UNKNOWN, hosts[name]),
                    self._sender_of(HostLeft(name=name)),
                )
            elif name not in hosts:
                yield (
                    CopyDifference("engine", node_place(name), known.uid, _UNKNOWN),
                    self._sender_of(HostJoined(host=known)),
                )

    def _sender_of(self, fact: Event) -> Cure:
        return lambda: self._loop.add_fact(fact)


def _identity(item: Any) -> str:  # noqa: ANN401 - an object of any kind
    return f"{uid_of(item)} at {version_of(item)}"


def _unequal(
    shown: Mapping[tuple[str, str], str], ours: Mapping[tuple[str, str], str]
) -> Iterable[tuple[tuple[str, str], str, str]]:
    """Return the differences by key: the expected and the actual value."""
    for key in {**shown, **ours}:
        should_be, is_now = shown.get(key, _UNKNOWN), ours.get(key, _UNKNOWN)
        if should_be != is_now:
            yield key, should_be, is_now
