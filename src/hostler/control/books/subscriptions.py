"""Requests that wait for news of a VM, of a host, or of anything: long polls, ``?wait=``, live pages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Literal

__all__ = ["Subscription", "Subscriptions"]

Kind = Literal["vm", "host", "*"]


class Subscription:
    """Counts news of one thing. Use it in a ``with`` block, and check the state before you wait."""

    def __init__(self, subscriptions: Subscriptions, key: tuple[str, str]) -> None:
        self._subscriptions = subscriptions
        self._key = key
        self._event = asyncio.Event()

    def __enter__(self) -> Subscription:
        self._subscriptions.add(self._key, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._subscriptions.discard(self._key, self)

    def poke(self) -> None:
        """Note that there is news."""
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for news since the last wait; say whether there was any. When the service ends there is none."""
        if self._subscriptions.is_closed:
            return False
        try:
            async with asyncio.timeout(max(timeout_s, 0)):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return not self._subscriptions.is_closed


class Subscriptions:
    """All subscriptions of one process, for one event loop."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str], set[Subscription]] = {}
        self._news: dict[str, int] = {}  # of hosts
        self.is_closed = False

    def subscribe(self, kind: Kind, key: str = "") -> Subscription:
        """Return a subscription; it counts from the start of its ``with`` block."""
        return Subscription(self, (kind, key))

    def add(self, key: tuple[str, str], one: Subscription) -> None:
        """Notify this one from now on."""
        self._by_key.setdefault(key, set()).add(one)

    def discard(self, key: tuple[str, str], one: Subscription) -> None:
        """No longer notify this one."""
        known = self._by_key.get(key)
        if known is not None:
            known.discard(one)
            if not known:
                del self._by_key[key]

    def close(self) -> None:
        """Wake all waiting requests; none may wait any more."""
        self.is_closed = True
        for known in self._by_key.values():
            for one in known:
                one.poke()

    def count_notices(self, host: str) -> int:
        """Return how often there was news of a host; an equal number later means that nothing was missed."""
        return self._news.get(host, 0)

    def notify(self, vms: Iterable[str], hosts: Iterable[str]) -> None:
        """Wake the requests that wait for any of these."""
        hosts = list(hosts)
        for host in hosts:
            self._news[host] = self._news.get(host, 0) + 1
        keys = [("vm", vm) for vm in vms] + [("host", host) for host in hosts] + [("*", "")]
        for key in keys:
            for one in self._by_key.get(key, ()):
                one.poke()
