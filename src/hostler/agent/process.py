"""One agent, put together: it joins, registers, polls orders, reports, and works, until it is told to stop.

Any number of agents live in one process: they share nothing but what they are given. Stopping an agent leaves its VMs
running; the next one adopts them. An agent that the control plane rejects ends, and its VMs run on all the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hostler._version import __version__
from hostler.agent.boot import boottime_ns
from hostler.agent.drivers.driver import Driver
from hostler.agent.link import (
    LONGEST_PAUSE_S,
    Backoff,
    Link,
    RefusedError,
    RejectedError,
    TooLargeError,
    longest_pause_s,
)
from hostler.agent.manifest import Manifest
from hostler.agent.message_size import LEAST_BYTES, MOST_BYTES, fit_registration, fit_report
from hostler.agent.messages import SPOKEN, Orders, Register, Registered, Tries
from hostler.agent.settings import Settings
from hostler.agent.telling import Telling, difference
from hostler.agent.tries import since
from hostler.agent.watchdog import Lease, LeaseFile
from hostler.agent.worker import Worker
from hostler.errors import HostlerError, UnavailableError

__all__ = ["Agent"]

_SECOND = 1_000_000_000
_POLLS_BY_EPOCH = 2  # the first protocol in which polls say under which registration


class Agent:
    """The agent of one host. ``boot`` names this start of the machine, ``run_id`` this start of the agent."""

    def __init__(
        self,
        link: Link,
        driver: Driver,
        manifest: Manifest,
        settings: Settings,
        *,
        boot: str,
        run_id: str,
        token: str = "",
        lease: LeaseFile | None = None,
        watched_vms: Callable[[], int] = lambda: 0,
        clock: Callable[[], int] = boottime_ns,
        rng: random.Random | None = None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._link = link
        self._settings = settings
        self._boot = boot
        self._run_id = run_id
        self._token = token
        self._lease = lease
        self._watched_vms = watched_vms
        self._was_watched = False
        self._clock = clock
        self._random = rng or random.Random(run_id)
        self._tell = tell
        self._worker = Worker(driver, manifest, settings, clock=clock, tell=tell)
        self._told = Telling()
        self._told_tries = Tries()
        self._sequence = 0
        self._registrations = 0
        self._most_bytes = MOST_BYTES  # of a message; less where that is too large for a proxy
        self._registered: Registered | None = None
        self._longest_pause_s = LONGEST_PAUSE_S  # of reports that reach nobody; outlives the registration that said it
        self._can_poll = asyncio.Event()
        self._is_missed = False  # the last report or registration was not answered well
        self._is_back = asyncio.Event()
        self._polling: asyncio.Task[Orders | None] | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Live until told to stop; raise what ended it otherwise."""
        try:
            await self._worker.open()
            await self._live(stopping)
        finally:
            await self._worker.close()

    async def _live(self, stopping: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        parts: list[asyncio.Task[Any]] = [
            loop.create_task(work, name=name)
            for name, work in (
                ("work", self._worker.run()),
                ("report", self._report_for_ever()),
                ("poll", self._poll_for_ever()),
                ("stop", stopping.wait()),
            )
        ]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
        for part in ended:
            part.result()

    async def _register(self, backoff: Backoff) -> Registered:
        """Join where that was never done, and register; try until it works or we are rejected."""
        while True:
            sent_at = self._clock()
            try:
                if self._link.identity is None:
                    await self._join()
                telling = self._worker.telling()
                message, told = fit_registration(self._registration(telling), telling, self._most_bytes)
                answer = await self._link.register(message)
            except (UnavailableError, RefusedError) as error:
                self._miss(error)
                await asyncio.sleep(self._pause_s(backoff, error))
                continue
            self._registered, self._told = answer, told
            self._longest_pause_s = longest_pause_s(answer)
            if message.vms_left_out:
                self._worker.news.set()  # reports tell the rest
            self._worker.registered(answer.limit)
            self._renew(sent_at, answer)
            self._can_poll.set()
            return answer

    async def _join(self) -> None:
        if not self._token:
            raise RejectedError("this agent never joined and has no token", hint="start it with a token file")
        await self._link.join(self._token, self._settings.name)
        self._tell("joined")

    def _registration(self, telling: Telling) -> Register:
        worker, watched = self._worker, self._watched()
        self._registrations += 1
        return Register(
            boot=self._boot,
            agent=self._run_id,
            version=__version__,
            driver=worker.driver.name,
            capabilities=worker.driver.capabilities,
            size=worker.size,
            labels=self._settings.labels,
            storages=self._settings.storages,
            bridges=self._settings.bridges,
            vms=tuple(telling.vms.values()),
            unknown=telling.unknown,
            unknown_left_out=telling.unknown_left_out,
            taken=telling.taken,
            is_inventory_known=worker.state.is_inventory_known and worker.state.has_looked,
            is_watched=watched > 0,
            watched_vms=watched,
            sequence=self._registrations,
            protocols=SPOKEN,
            unavailable=telling.unavailable,
        )

    async def _report_for_ever(self) -> None:
        backoff = Backoff(self._random)
        beat_at, is_believed = 0, False
        while True:
            registered = self._registered
            if registered is None:
                registered, is_believed = await self._register(backoff), False
                # By chance, so that a fleet that was started at once does not report at once.
                beat_at = self._clock() + int(registered.heartbeat_s * self._random.random() * _SECOND)
            is_news = await self._wait_for_news(beat_at)
            if not is_news and self._clock() < beat_at:
                continue
            beat_at = self._clock() + int(registered.heartbeat_s * _SECOND)
            if self._worker.telling().unavailable != self._told.unavailable:
                self._lose_registration()  # storage came or went: all that this host has is told anew
                continue
            try:
                if not await self._report(registered):
                    self._lose_registration()
            except TooLargeError as error:
                self._miss(error)
                await asyncio.sleep(backoff.next_wait_s(error))
                beat_at = 0
            except RefusedError as error:
                self._miss(error)
                self._lose_registration()
                # A service that started anew refuses a registration that was good until now: the next one is made at
                # once. One that was never good for anything is followed by a wait.
                if not is_believed:
                    await asyncio.sleep(backoff.next_wait_s(error))
            except UnavailableError as error:
                self._miss(error)
                await asyncio.sleep(self._pause_s(backoff, error))
                beat_at = 0
            else:
                is_believed = True
                backoff.reset()

    def _pause_s(self, backoff: Backoff, error: HostlerError) -> float:
        """Return how long to wait before the next message by which we are heard.

        While the control plane does not answer, the pause is short, so that it hears us soon after it comes back. If it
        rejects our messages it has heard us, and we try less often. Polls may be rare: the first answered report wakes
        them.
        """
        if isinstance(error, UnavailableError):
            return backoff.next_wait_s(error, longest_s=self._longest_pause_s)
        return backoff.next_wait_s(error)

    async def _wait_for_news(self, beat_at: int) -> bool:
        """Wait for news or the time of the next heartbeat; say whether there is something to say."""
        news = self._worker.news
        try:
            async with asyncio.timeout(max(beat_at - self._clock(), 0) / _SECOND):
                await news.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(self._settings.gather_s)
        news.clear()
        return self._worker.telling() != self._told

    async def _report(self, registered: Registered) -> bool:
        """Say what changed; return false where we are to register anew."""
        self._sequence += 1
        telling, tries, sent_at = self._worker.telling(), self._worker.tries, self._clock()
        report = difference(
            self._told,
            telling,
            boot=self._boot,
            agent=self._run_id,
            epoch=registered.epoch,
            sequence=self._sequence,
            watched_vms=self._watched(),
            tries=since(self._told_tries, tries),
        )
        report, told = fit_report(report, self._told, telling, self._most_bytes)
        answer = await self._link.report(report)
        self._told, self._told_tries = told, tries
        if told != telling:
            self._worker.news.set()  # the next one tells the rest
        self._renew(sent_at, registered)
        return not answer.resync

    def _watched(self) -> int:
        """Return how many VMs a watchdog can stop in time now: each message says it, since the server counts on it."""
        watched = self._watched_vms()
        if self._was_watched and not watched:
            self._tell(
                "the watchdog does not work, see watchdog.log: meanwhile no VM of this host is started elsewhere"
            )
        self._was_watched = watched > 0
        return watched

    async def _poll_for_ever(self) -> None:
        backoff = Backoff(self._random)
        all_at, is_believed = 0, False
        while True:
            await self._can_poll.wait()
            registered, is_full = self._registered, self._clock() >= all_at
            version = 0 if is_full else self._worker.state.version
            try:
                orders = await self._poll(version, registered)
            except RefusedError as error:
                self._tell(error.message)
                self._lose_registration()
                if not is_believed:  # as for reports
                    await asyncio.sleep(backoff.next_wait_s(error))
                is_believed = False
                continue
            except UnavailableError as error:
                self._tell(error.message)
                await self._rest(backoff.next_wait_s(error))
                continue
            backoff.reset()
            is_believed = True
            if orders is not None and registered is self._registered:
                self._worker.take(orders)
                all_at = self._next_resync(orders, all_at)

    async def _poll(self, version: int, registered: Registered | None) -> Orders | None:
        """Ask for orders; a registration that is lost ends the question, since its answer would not count."""
        epoch = registered.epoch if registered is not None and registered.protocol >= _POLLS_BY_EPOCH else 0
        polling = self._link.poll(version, wait_s=self._settings.poll_s, epoch=epoch)
        call = asyncio.get_running_loop().create_task(polling)
        self._polling = call
        try:
            return await call
        except asyncio.CancelledError:
            us = asyncio.current_task()
            if us is None or us.cancelling():
                raise
            return None

    async def _rest(self, wait_s: float) -> None:
        """Wait so long, or until the control plane answers reports again that it did not answer."""
        self._is_back.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._is_back.wait()

    def _next_resync(self, orders: Orders, all_at: int) -> int:
        if not orders.is_full:
            return all_at
        return self._clock() + int(self._settings.resync_s * _SECOND)

    def _lose_registration(self) -> None:
        self._registered = None
        self._can_poll.clear()
        if self._polling is not None:
            self._polling.cancel()
        self._worker.news.set()

    def _miss(self, error: HostlerError) -> None:
        self._tell(error.message)
        self._is_missed = True
        if isinstance(error, TooLargeError):
            self._most_bytes = max(self._most_bytes // 2, LEAST_BYTES)

    def _renew(self, sent_at: int, registered: Registered) -> None:
        if self._is_missed:
            self._is_missed = False
            self._is_back.set()
        self._worker.heard(sent_at, registered.stop_after_s)
        if self._lease is not None:
            self._lease.write(Lease(boot=self._boot, renewed_at=sent_at, stop_after_s=registered.stop_after_s))
