"""Compares what we believe with what the API server shows, says what differs, and puts it right.

There are three copies of the truth: the reflectors' collections, the world, and the engine's books. Something is always
under way between them, so only what differs twice in a row, with the same values, counts. None of this should ever find
anything; a mistake of ours then costs minutes and not a lost pod. Used by ``process``, from time to time and on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from hostler.errors import HostlerError
from hostler.kube.api.client import Broken, Client
from hostler.kube.api.decoding import key_of, uid_of, version_of
from hostler.kube.api.reflector import Reflector, Update
from hostler.kube.api.resources import NODES, PODS
from hostler.kube.scheduler.binder import Binder
from hostler.kube.scheduler.executor import Executor
from hostler.kube.scheduler.loop import Loop
from hostler.manifests.places import node_place, pod_place
from hostler.model import BindFailed, Event, GuestArrived, GuestChanged, GuestLeft, HostJoined, HostLeft

__all__ = ["Comparer", "ComparerCounts", "Difference", "follow"]

_SETTLE_S = 5.0  # between two looks: longer than a bind or a watch takes to tell
_EVERY_S = 600.0
_UNKNOWN = "nothing"
_ORDER = ("collection", "world", "engine")

Cure = Callable[[], None]


class Difference(msgspec.Struct, frozen=True):
    """One thing that is not what it should be, in which copy; ``is_now`` is what that copy says."""

    copy: Literal["collection", "world", "engine"]
    what: str
    should_be: str
    is_now: str

    def __str__(self) -> str:
        return f"{self.what} is {self.is_now} in our {self.copy} and should be {self.should_be}"


class ComparerCounts(msgspec.Struct):
    """What comparisons brought so far."""

    rounds: int = 0
    found: int = 0
    failed: int = 0  # comparisons that the server did not answer


async def follow(reflector: Reflector[Any], doubt: asyncio.Event) -> None:
    """Run a reflector, and let it list anew whenever its copy is doubted; cancelled to end."""
    while True:
        running = asyncio.ensure_future(reflector.run())
        doubting = asyncio.ensure_future(doubt.wait())
        try:
            await asyncio.wait({running, doubting}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
        finally:
            running.cancel()
            doubting.cancel()
            await asyncio.gather(running, doubting, return_exceptions=True)
        doubt.clear()
        reflector.version = ""


class Comparer:
    """Compares all copies. ``relist`` lets a reflector list anew."""

    def __init__(
        self,
        client: Client,
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
        self.last: tuple[Difference, ...] = ()
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
        """Compare from time to time and when asked; cancelled to end."""
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
                self._say(f"nothing was compared: {error.message}")
                continue
            for difference in found:
                self._say(f"found and put right: {difference}")
            if was_asked and not found:
                self._say("what we believe is what the API server shows")

    async def compare(self) -> tuple[Difference, ...]:
        """Compare, put right what differs, and return it.

        Each copy is made from the one before it. Where several differ, a later one may be right and merely differ from
        a wrong one, so only the first is put right now, and the others are looked at again soon.
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

    async def _look(self) -> dict[Difference, Cure]:
        found: dict[Difference, Cure] = {}
        for reflector in self._reflectors.values():
            if not reflector.is_absent:
                found |= await self._collection(reflector)
        found |= dict(self._world())
        booked = await self._executor.run(self._books)
        return found | dict(self._engine(*booked))

    # -- collections -----------------------------------------------------------------------------------------------

    async def _collection(self, reflector: Reflector[Any]) -> dict[Difference, Cure]:
        """Compare a reflector's copy with a new list."""
        listing = await self._client.list(reflector.resource)
        shown = {key_of(item): _identity(item) for item in listing.items}
        ours = {key: _identity(item) for key, item in reflector.store.items()}

        def cure() -> None:
            self._relist(reflector)

        kind = reflector.resource.kind.lower()
        return {
            Difference("collection", f"{kind} {'/'.join(key)}", should_be, is_now): cure
            for key, should_be, is_now in _unequal(shown, ours)
        }

    # -- the world -------------------------------------------------------------------------------------------------

    def _world(self) -> Iterator[tuple[Difference, Cure]]:
        """Compare the world with what it was made from."""
        world, problems = self._loop.world, self._loop.world.problems()
        pods, nodes = self._reflectors[PODS.kind], self._reflectors[NODES.kind]
        shown = {
            key: f"{item.metadata.uid} on {item.spec.node_name or _UNKNOWN}"
            for key, item in pods.store.items()
            if not isinstance(item, Broken) and item.metadata.uid and pod_place(*key) not in problems
        }
        ours = {
            (view.namespace, view.name): f"{view.uid} on {view.node or _UNKNOWN}"
            for view in world.pods.values()
            if pod_place(view.namespace, view.name) not in problems
        }
        for key, should_be, is_now in _unequal(shown, ours):
            yield Difference("world", pod_place(*key), should_be, is_now), self._again(pods, key)
        known = {("", name): host.uid for name, host in world.hosts.items()}
        listed = {key: uid_of(item) for key, item in nodes.store.items() if node_place(key[1]) not in problems}
        for key, should_be, is_now in _unequal(listed, known):
            yield Difference("world", node_place(key[1]), should_be, is_now), self._again(nodes, key)

    def _again(self, reflector: Reflector[Any], key: tuple[str, str]) -> Cure:
        """Show the world an object once more, as it is now."""
        return lambda: self._loop.observe(reflector.resource, [Update(key, None, reflector.store.get(key))])

    # -- the engine ------------------------------------------------------------------------------------------------

    def _books(self) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
        engine = self._loop.core.engine
        guests = {uid: (record.host, engine.state_of(record)) for uid, record in engine.view.records.items()}
        return guests, {host.name: host.uid for host in engine.hosts()}

    def _engine(
        self, guests: Mapping[str, tuple[str, str]], hosts: Mapping[str, str]
    ) -> Iterator[tuple[Difference, Cure]]:
        """Compare the engine's books with what the world told it."""
        world = self._loop.world
        told = {uid: guest for uid in world.pods if (guest := world.guest(uid)) is not None}
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
                yield Difference("engine", f"guest {uid}", should_be, where), self._telling(fact)
        for name in {**world.hosts, **hosts}:
            known = world.hosts.get(name)
            if known is None:
                yield Difference("engine", node_place(name), _UNKNOWN, hosts[name]), self._telling(HostLeft(name=name))
            elif name not in hosts:
                yield Difference("engine", node_place(name), known.uid, _UNKNOWN), self._telling(HostJoined(host=known))

    def _telling(self, fact: Event) -> Cure:
        return lambda: self._loop.tell(fact)


def _identity(item: Any) -> str:  # noqa: ANN401 - an object of any kind
    return f"{uid_of(item)} at {version_of(item)}"


def _unequal(
    shown: Mapping[tuple[str, str], str], ours: Mapping[tuple[str, str], str]
) -> Iterable[tuple[tuple[str, str], str, str]]:
    """Return what differs, by key: what it should be and what it is."""
    for key in {**shown, **ours}:
        should_be, is_now = shown.get(key, _UNKNOWN), ours.get(key, _UNKNOWN)
        if should_be != is_now:
            yield key, should_be, is_now
