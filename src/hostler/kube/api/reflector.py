"""A copy of one collection that stays current whatever happens to the connection.

List, then watch from the list's version; a watch that ends is taken up where it was; a version that the server no
longer has means a new list, compared with the copy, so that nobody misses a deletion. There is one loop and one
watch at a time, and every way round the loop either made progress or waits. Used by the scheduler for each kind.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic

from hostler.errors import HostlerError
from hostler.kube.api.client import Broken, Client, SilentError
from hostler.kube.api.clock import NANOSECONDS, Clock
from hostler.kube.api.failures import ApiError
from hostler.kube.api.patience import Backoff, Patience
from hostler.kube.api.resources import Item, Resource
from hostler.kube.api.store import Store, Update, is_newer

__all__ = ["Reflector", "Update"]

_WAITS = Patience(first_s=1.0, limit_s=30.0)
_ABSENT_WAIT_S = 30.0
_LONG_NS = 30 * NANOSECONDS  # a watch that lasted so long counts as one that worked
_MAX_MUTE = 2  # long watches in a row without a word, not even a bookmark, before the version itself is doubted


class Reflector(Generic[Item]):
    """Keeps ``store`` equal to a collection and tells of every difference, in order.

    ``synced`` is set when the first list is there (or the API is absent and may be). ``heard_at`` is when the
    server was last heard: a view that is old must not be acted on rashly.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[Item],
        on_updates: Callable[[Resource[Item], list[Update[Item]]], None],
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
        self.version = ""  # up to which all is known; empty: a list is needed
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
        self._content: Store[Item] = Store()
        self._backoff = Backoff(_WAITS, random)
        self._has_listed = False
        self._is_list_proven = True  # a watch from the last list's version told something, or lasted
        self._mute_watches = 0
        self._is_running = False

    @property
    def store(self) -> dict[tuple[str, str], Item | Broken]:
        """Return the objects by namespace and name; to be read only."""
        return self._content.objects

    async def run(self) -> None:
        """List and watch for ever; cancel it to end."""
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
        """Follow the collection until the stream ends; say whether that led anywhere."""
        start, start_version = self._clock.now(), self.version
        # Not all watches of all clients end at the same time.
        timeout_s = self._timeout_s * (1 + self._random.random())
        stream = self._client.watch(
            self.resource,
            self.version,
            namespace=self._namespace,
            fields=self._fields,
            timeout_s=timeout_s,
            silence_s=self._silence_s,
            opened=self._hear,  # it tells all that is newer from now on, or breaks
        )
        is_mute = True
        try:
            async with aclosing(stream) as batches:
                async for batch in batches:
                    is_mute = False
                    self._hear()
                    updates: list[Update[Item]] = []
                    for change in batch:
                        self._content.take_change(change, self.version, updates)
                        if is_newer(change.version, self.version):
                            self.version = change.version
                    self._tell(updates)
        except SilentError:
            # Of a collection where nothing happens a server need not say a word: it sends no bookmark that is not newer
            # than where the watch began. One that has spoken sends them each minute, and its silence is odd.
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
        """List anew after watches without a word: a server that was set back says nothing until it is as far as we."""
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
            # A server that lists but lets nobody watch from there must not be listed all the time.
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

    def _tell(self, updates: list[Update[Item]]) -> None:
        if updates:
            self._on_updates(self.resource, updates)
