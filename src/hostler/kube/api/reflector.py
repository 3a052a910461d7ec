"""A copy of one collection that stays current whatever happens to the connection.

List, then watch from the list's version. A watch that ends is resumed at its last version. If the server no longer has
that version, list again and compare with the copy, so that no deletion is missed. There is one loop and one watch at a
time, and every round of the loop either makes progress or waits. The scheduler runs one for each kind.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic

from hostler.errors import HostlerError
from hostler.kube.api.client import KubeClient, SilentError, UndecodableObject
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import Item, Resource
from hostler.kube.api.store import CollectionStore, ObjectUpdate, is_newer
from hostler.runtime.backoff import Backoff, BackoffRules
from hostler.runtime.clock import NANOSECONDS, Clock

__all__ = ["ObjectUpdate", "Reflector"]

_WAITS = BackoffRules(first_s=1.0, limit_s=30.0)
_ABSENT_WAIT_S = 30.0
_LONG_NS = 30 * NANOSECONDS  # a watch that lasted this long counts as successful
_MAX_MUTE = 2  # silent long watches in a row, without even a bookmark, before the version itself is doubted


class Reflector(Generic[Item]):
    """Keeps ``store`` equal to a collection and reports every difference, in order.

    ``synced`` is set when the first list has arrived (or an optional API is absent). ``heard_at`` is when the server
    last sent something: evictions must not rely on an old view.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource[Item],
        on_updates: Callable[[Resource[Item], list[ObjectUpdate[Item]]], None],
        *,
        clock: Clock,
        random: random.Random,
        is_optional: bool = False,
        namespace: str = "",
        fields: str = "",
        timeout_s: float = 300.0,
        silence_s: float = 90.0,
    ) -> None:
        self.resource = resource
        self.version = ""  # everything up to this version is known; empty: a list is needed
        self.synced = asyncio.Event()
        self.heard_at = 0
        self.relists = 0
        self.failures = 0
        self.last_error = ""
        self.is_absent = False
        self._client = client
        self._on_updates = on_updates
        self._clock = clock
        self._random = random
        self._is_optional = is_optional
        self._namespace = namespace
        self._fields = fields
        self._timeout_s = timeout_s
        self._silence_s = silence_s
        self._content: CollectionStore[Item] = CollectionStore()
        self._backoff = Backoff(_WAITS, random)
        self._has_listed = False
        self._is_list_proven = True  # a watch from the last list's version sent something, or lasted
        self._mute_watches = 0
        self._is_running = False

    @property
    def store(self) -> dict[tuple[str, str], Item | UndecodableObject]:
        """Return the objects by namespace and name; read-only."""
        return self._content.objects

    async def run(self) -> None:
        """List and watch forever; cancel it to end."""
        if self._is_running:
            raise RuntimeError("a reflector runs once")
        self._is_running = True
        try:
            while True:
                wait_s = await self._round()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
        finally:
            self._is_running = False

    async def _round(self) -> float:
        """List if needed, watch until that ends; return how long to wait before the next round."""
        verb = "watch" if self.version else "list"
        try:
            if not self.version:
                await self._list()
                verb = "watch"
            if await self._watch():
                self._backoff.reset()
                return 0.0
            return self._backoff.next_wait_s()
        except ApiError as error:
            return self._after_refusal(error, verb)
        except HostlerError as error:
            self._note(error.message)
            return self._backoff.next_wait_s()

    async def _list(self) -> None:
        listing = await self._client.list(self.resource, self._namespace, fields=self._fields)
        self._hear()
        self.relists += self._has_listed
        self._has_listed, self._is_list_proven, self.is_absent = True, False, False
        self.version = listing.version
        self._tell(self._content.take_list(listing.items))
        self.synced.set()

    async def _watch(self) -> bool:
        """Follow the collection until the stream ends; return whether anything was received."""
        start, start_version = self._clock.now(), self.version
        # Random, so that watches of many clients do not end at the same time.
        timeout_s = self._timeout_s * (1 + self._random.random())
        stream = self._client.watch(
            self.resource,
            self.version,
            namespace=self._namespace,
            fields=self._fields,
            timeout_s=timeout_s,
            silence_s=self._silence_s,
            opened=self._hear,  # it sends everything newer from now on, or breaks
        )
        is_mute = True
        try:
            async with aclosing(stream) as batches:
                async for batch in batches:
                    is_mute = False
                    self._hear()
                    updates: list[ObjectUpdate[Item]] = []
                    for change in batch:
                        self._content.take_change(change, self.version, updates)
                        if is_newer(change.version, self.version):
                            self.version = change.version
                    self._tell(updates)
        except SilentError:
            # A server need not send bookmarks for a collection without changes: none is newer than the start of the
            # watch. After the first bookmark they come each minute, and silence is suspicious.
            if not is_mute:
                raise
        finally:
            is_long = self._clock.now() - start >= _LONG_NS
            has_worked = self.version != start_version or is_long
            self._is_list_proven |= has_worked
            self._doubt_version(is_mute=is_mute, is_long=is_long)
            if has_worked:
                self._backoff.reset()
        return has_worked

    def _doubt_version(self, *, is_mute: bool, is_long: bool) -> None:
        """List again after silent watches: a server that was restored is silent until it reaches our version."""
        if not is_mute:
            self._mute_watches = 0
        elif is_long:
            self._mute_watches += 1
        if self._mute_watches >= _MAX_MUTE:
            self._mute_watches, self.version = 0, ""

    def _after_refusal(self, error: ApiError, verb: str) -> float:
        if verb == "watch" and (error.is_expired or error.is_too_new):
            self.version = ""
            self._note(error.message)
            # A server that lists but denies watches from that version must not be listed in a tight loop.
            return 0.0 if self._is_list_proven else self._backoff.next_wait_s(error.retry_after_s)
        if error.is_gone and self._is_optional:
            self._mark_absent()
            return _ABSENT_WAIT_S * (1 - 0.1 * self._random.random())
        where = f"{self.resource.plural} ({self.resource.api_version})"
        if error.is_forbidden:
            self._note(f"not allowed to {verb} {where}: {error.text}")
        else:
            self._note(f"{verb} {where}: {error.message}")
        return self._backoff.next_wait_s(error.retry_after_s)

    def _mark_absent(self) -> None:
        """The API does not exist, so neither do its objects."""
        self.heard_at = self._clock.now()
        self.is_absent, self.version = True, ""
        self._tell(self._content.take_list(()))
        self.synced.set()

    def _hear(self) -> None:
        self.heard_at = self._clock.now()
        self.last_error = ""

    def _note(self, text: str) -> None:
        self.failures += 1
        self.last_error = text

    def _tell(self, updates: list[ObjectUpdate[Item]]) -> None:
        if updates:
            self._on_updates(self.resource, updates)
