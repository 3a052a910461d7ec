"""A complete agent: it joins, registers, polls orders, reports, and works, until it is stopped.

Any number of agents live in one process: they share nothing but what they are given. Stopping an agent leaves its VMs
running; the next one adopts them. An agent that the control plane rejects ends, and its VMs run on all the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from hostler._version import __version__
from hostler.agent.boot import boottime_ns
from hostler.agent.connection.link import (
    LONGEST_PAUSE_S,
    PAUSES,
    AgentRejectedError,
    Link,
    MessageRejectedError,
    MessageTooLargeError,
    longest_pause_s,
)
from hostler.agent.core.message_size import LEAST_BYTES, MOST_BYTES, fit_registration, fit_report
from hostler.agent.core.reports import ReportContent, difference
from hostler.agent.driver import Driver
from hostler.agent.manifest import Manifest
from hostler.agent.messages import SPOKEN, Orders, Register, Registered, Tries
from hostler.agent.settings import AgentSettings
from hostler.agent.watchdog.watchdog import LeaseFile, WatchdogLease
from hostler.agent.worker import HostWorker, tries_since
from hostler.errors import HostlerError, UnavailableError
from hostler.runtime.backoff import Backoff
from hostler.runtime.tasks import run_parts
from hostler.telemetry.log import QUIET, Log

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
        settings: AgentSettings,
        *,
        boot: str,
        run_id: str,
        token: str = "",
        lease: LeaseFile | None = None,
        watched_vms: Callable[[], int] = lambda: 0,
        clock: Callable[[], int] = boottime_ns,
        rng: random.Random | None = None,
        log: Log = QUIET,
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
        self._log = log
        self._worker = HostWorker(driver, manifest, settings, clock=clock, log=log)
        self._told = ReportContent()
        self._told_tries = Tries()
        self._sequence = 0
        self._registrations = 0
        self._most_bytes = MOST_BYTES  # of a message; less where that is too large for a proxy
        self._registered: Registered | None = None
        self._longest_pause_s = LONGEST_PAUSE_S  # of reports that do not arrive; outlives the registration that said it
        self._can_poll = asyncio.Event()
        self._is_missed = False  # the last report or registration was not answered well
        self._is_back = asyncio.Event()
        self._polling: asyncio.Task[Orders | None] | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        """Run until stopped; raise the error that ended it."""
        try:
            await self._worker.open()
            await self._live(stopping)
        finally:
            await self._worker.close()

    async def _live(self, stopping: asyncio.Event) -> None:
        await run_parts(
            {
                "work": self._worker.run(),
                "report": self._report_for_ever(),
                "poll": self._poll_for_ever(),
                "stop": stopping.wait(),
            }
        )

    async def _register(self, backoff: Backoff) -> Registered:
        """Join if necessary, and register; try until it works or the agent is rejected."""
        while True:
            sent_at = self._clock()
            try:
                if self._link.identity is None:
                    await self._join()
                content = self._worker.report_content()
                message, told = fit_registration(self._registration(content), content, self._most_bytes)
                answer = await self._link.register(message)
            except (UnavailableError, MessageRejectedError) as error:
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
            raise AgentRejectedError("this agent never joined and has no token", hint="start it with a token file")
        await self._link.join(self._token, self._settings.name)
        self._log.info("joined")

    def _registration(self, content: ReportContent) -> Register:
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
            vms=tuple(content.vms.values()),
            unknown=content.unknown,
            unknown_left_out=content.unknown_left_out,
            taken=content.taken,
            is_inventory_known=worker.state.is_inventory_known and worker.state.has_looked,
            is_watched=watched > 0,
            watched_vms=watched,
            sequence=self._registrations,
            protocols=SPOKEN,
            unavailable=content.unavailable,
        )

    async def _report_for_ever(self) -> None:
        backoff = Backoff(PAUSES, self._random)
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
            if self._worker.report_content().unavailable != self._told.unavailable:
                self._lose_registration()  # storage came or went: all that this host has is reported again
                continue
            try:
                if not await self._report(registered):
                    self._lose_registration()
            except MessageTooLargeError as error:
                self._miss(error)
                await asyncio.sleep(backoff.next_wait_s(error.retry_after_s))
                beat_at = 0
            except MessageRejectedError as error:
                self._miss(error)
                self._lose_registration()
                # A service that was restarted rejects a registration that was good until now: the next one is made at
                # once. One that was never good for anything is followed by a wait.
                if not is_believed:
                    await asyncio.sleep(backoff.next_wait_s(error.retry_after_s))
            except UnavailableError as error:
                self._miss(error)
                await asyncio.sleep(self._pause_s(backoff, error))
                beat_at = 0
            else:
                is_believed = True
                backoff.reset()

    def _pause_s(self, backoff: Backoff, error: HostlerError) -> float:
        """Return how long to wait before the next message that shows that we are alive.

        While the control plane does not answer, the pause is short, so that it hears us soon after it comes back. If it
        rejects our messages, it has heard us, and we try less often. Polls may be rare: the first answered report wakes
        them.
        """
        if isinstance(error, UnavailableError):
            return backoff.next_wait_s(error.retry_after_s, longest_s=self._longest_pause_s)
        return backoff.next_wait_s(error.retry_after_s)

    async def _wait_for_news(self, beat_at: int) -> bool:
        """Wait for news or the time of the next heartbeat; say whether there is something to report."""
        news = self._worker.news
        try:
            async with asyncio.timeout(max(beat_at - self._clock(), 0) / _SECOND):
                await news.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(self._settings.gather_s)
        news.clear()
        return self._worker.report_content() != self._told

    async def _report(self, registered: Registered) -> bool:
        """Report what changed; return False if the agent must register again."""
        self._sequence += 1
        content, tries, sent_at = self._worker.report_content(), self._worker.tries, self._clock()
        report = difference(
            self._told,
            content,
            boot=self._boot,
            agent=self._run_id,
            epoch=registered.epoch,
            sequence=self._sequence,
            watched_vms=self._watched(),
            tries=tries_since(self._told_tries, tries),
        )
        report, told = fit_report(report, self._told, content, self._most_bytes)
        answer = await self._link.report(report)
        self._told, self._told_tries = told, tries
        if told != content:
            self._worker.news.set()  # the next one tells the rest
        self._renew(sent_at, registered)
        return not answer.resync

    def _watched(self) -> int:
        """Return how many VMs a watchdog can stop in time now. Each message has it, since the server relies on it."""
        watched = self._watched_vms()
        if self._was_watched and not watched:
            self._log.warn(
                "the watchdog does not work, see watchdog.log: meanwhile no VM of this host is started elsewhere"
            )
        self._was_watched = watched > 0
        return watched

    async def _poll_for_ever(self) -> None:
        backoff = Backoff(PAUSES, self._random)
        all_at, is_believed = 0, False
        while True:
            await self._can_poll.wait()
            registered, is_full = self._registered, self._clock() >= all_at
            version = 0 if is_full else self._worker.state.version
            try:
                orders = await self._poll(version, registered)
            except MessageRejectedError as error:
                self._log.warn(error.message)
                self._lose_registration()
                if not is_believed:  # as for reports
                    await asyncio.sleep(backoff.next_wait_s(error.retry_after_s))
                is_believed = False
                continue
            except UnavailableError as error:
                self._log.warn(error.message)
                await self._rest(backoff.next_wait_s(error.retry_after_s))
                continue
            backoff.reset()
            is_believed = True
            if orders is not None and registered is self._registered:
                self._worker.take(orders)
                all_at = self._next_resync(orders, all_at)

    async def _poll(self, version: int, registered: Registered | None) -> Orders | None:
        """Ask for orders; the end of the registration ends the poll, since its answer would not count."""
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
        """Wait that long, or until the control plane answers reports again."""
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
        self._log.warn(error.message)
        self._is_missed = True
        if isinstance(error, MessageTooLargeError):
            self._most_bytes = max(self._most_bytes // 2, LEAST_BYTES)

    def _renew(self, sent_at: int, registered: Registered) -> None:
        if self._is_missed:
            self._is_missed = False
            self._is_back.set()
        self._worker.heard(sent_at, registered.stop_after_s)
        if self._lease is not None:
            self._lease.write(WatchdogLease(boot=self._boot, renewed_at=sent_at, stop_after_s=registered.stop_after_s))
