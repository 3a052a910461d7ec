"""The host side of an agent: keeps the core's state, makes records durable, and runs one lane per VM on the driver.

Order of things, on which everything after a crash depends: the core says what to do, the lanes are taken, the records
are safe on disk, and only then the driver acts. Used by ``process``.

Looks at the host may hang: a stale mount, a hypervisor daemon that does not answer. Reports and heartbeats continue
meanwhile. There is one look at a time, and one that hangs is never given up: each further one would block a thread.

    no look --due--> under way --in time--> observed
                        |                      ^
                 look_timeout_s                |
                        v                      |
                     hangs ------answers-------+
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import msgspec

from hostler.agent.core import decisions
from hostler.agent.core.plan import plan
from hostler.agent.core.reports import ReportContent, gone, reports, taken, unavailable, unknown, unknown_left_out
from hostler.agent.core.state import NEVER, Action, ActionOutcome, AgentState, DriverVerb, Record
from hostler.agent.driver import BlockedError, Driver, DriverError, ObservedVm, PermanentError
from hostler.agent.manifest import Manifest, ManifestError
from hostler.agent.messages import HostSize, Orders, Tries, Trouble
from hostler.agent.settings import AgentSettings
from hostler.errors import HostlerError, InternalError
from hostler.telemetry.log import Log

__all__ = ["HostWorker", "RepeatedLines", "perform", "tries_since", "trouble_of"]


class RepeatedLines:
    """Suppresses log lines that repeat for the same VM."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[str, int]] = {}

    def worth_saying(self, vm: str, line: str) -> str:
        """Return the line, with a count from the second time on; "" if it came too often to be logged each time.

        The first, second, fourth, eighth, … time is logged.
        """
        before, count = self._last.get(vm, ("", 0))
        count = count + 1 if line == before else 1
        self._last[vm] = (line, count)
        if count.bit_count() > 1:
            return ""
        return f"{line} ({count} times by now)" if count > 1 else line

    def forget(self, vm: str) -> None:
        """Treat the next line about a VM as the first one, after a success."""
        self._last.pop(vm, None)


_SECOND = 1_000_000_000
_AFTER_FAILED_LOOK_S = 1.0
_HANG_HINT = "check this host's mounts and hypervisor"


class HostScan(msgspec.Struct, frozen=True):
    """The result of a scan of the host."""

    found: list[ObservedVm]
    unavailable: dict[str, str]
    size: HostSize


class HostWorker:
    """What an agent does on its host. ``news`` is set whenever there may be something to report."""

    def __init__(
        self,
        driver: Driver,
        manifest: Manifest,
        settings: AgentSettings,
        *,
        clock: Callable[[], int],
        log: Log,
    ) -> None:
        self.driver = driver
        self.news = asyncio.Event()
        self.size = HostSize(cpu_millis=0, memory_bytes=0)
        self.state = AgentState(limit=self.size)
        self.tries = Tries()  # since this agent started
        self._manifest = manifest
        self._settings = settings
        self._clock = clock
        self._log = log
        self._saved: dict[str, Record] = {}
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._abandoned: set[str] = set()
        self._touched: set[str] = set()
        self._wake = asyncio.Event()
        self._look_at = 0
        self._look: asyncio.Task[HostScan] | None = None
        self._is_look_early = False
        self._repeats = RepeatedLines()

    async def open(self) -> None:
        """Prepare: load the records and find VMs. Running VMs are adopted unchanged."""
        with self._logged_if_slow():
            await self.driver.open()
            inventory = await self._manifest.load()
            self._saved = {record.vm: record for record in inventory.records}
            self.size = await self.driver.size()
        if inventory.set_aside:
            self._log.warn(f"inventory unknown: unreadable records are set aside: {', '.join(inventory.set_aside)}")
        self.state = decisions.first_state(self.size, inventory.records, is_inventory_known=not inventory.set_aside)
        await self._await_look()
        if self._is_look_done():
            self._observe(self._take_look().result())
        else:
            self._note_hanging_look()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._wake.clear()
            is_doubted = bool(self.state.doubts.keys() - self.state.busy.keys())
            if self._clock() >= self._look_at or is_doubted or self._is_look_done():
                await self._look_at_host()
            await self._begin_lanes()
            await self._wait()

    async def close(self) -> None:
        """Let short actions end, abandon the others, and leave the VMs running."""
        if self._look is not None:
            look = self._take_look()
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)
        lanes = list(self._lanes.values())
        if lanes:
            await asyncio.wait(lanes, timeout=self._settings.shutdown_s)
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
        try:
            await self._save()
        except ManifestError as error:
            self._log.warn(f"records could not be saved: {error.message}")
        await self.driver.close()

    def take(self, orders: Orders) -> None:
        """Take in orders; a migration that they replace is canceled."""
        self._become(decisions.take(self.state, orders))
        for vm, action in self.state.busy.items():
            order = self.state.orders.get(vm)
            is_overtaken = order is not None and action.order is not None and order.generation > action.order.generation
            if action.verb is DriverVerb.SEND and is_overtaken and vm in self._lanes:
                self._abandoned.add(vm)
                self._lanes[vm].cancel()

    def registered(self, limit: HostSize | None) -> None:
        """Take in what the host may give, and expect all orders again."""
        self._become(decisions.after_registration(self.state, limit or self.size))

    def heard(self, sent_at: int, stop_after_s: float) -> None:
        """Note that the control plane heard us at that time, so VMs that silence stops may run until later."""
        until = sent_at + self._ns(stop_after_s) if stop_after_s > 0 else NEVER
        if self._clock() >= self.state.silent_at:
            self._wake.set()
        self.state = msgspec.structs.replace(self.state, silent_at=until)

    def report_content(self) -> ReportContent:
        """Return everything that can be reported now."""
        if not self.state.has_looked:  # any VM may be here: to call one absent or stopped could make it run twice
            return ReportContent(version=self.state.version, unavailable=unavailable(self.state))
        planned = plan(self.state, self._clock())
        return ReportContent(
            version=self.state.version,
            vms=reports(self.state, planned),
            gone=gone(self.state),
            unknown=unknown(self.state),
            unknown_left_out=unknown_left_out(self.state),
            taken=taken(self.state),
            refused_teardown=planned.refused_teardown,
            unavailable=unavailable(self.state),
        )

    async def _look_at_host(self) -> None:
        """Scan the host and observe the result. A scan that takes too long continues in the background."""
        if self._look is None:
            await self._await_look()
        if not self._is_look_done():
            self._note_hanging_look()
            return
        try:
            look = self._take_look().result()
        except Exception as error:  # a driver's bug must not end the agent
            why = error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
            self._log.warn(f"cannot scan the host: {why}")
            await asyncio.sleep(_AFTER_FAILED_LOOK_S)
            return
        self._observe(look)

    async def _await_look(self) -> None:
        """Begin a scan and wait for it, but not longer than a scan may take."""
        self._touched = set(self._lanes)
        self._is_look_early = self._clock() < self._look_at
        self._look = asyncio.get_running_loop().create_task(self._find(), name="look")
        self._look.add_done_callback(lambda look: self._wake.set())
        await asyncio.wait({self._look}, timeout=self._settings.look_timeout_s)

    def _is_look_done(self) -> bool:
        return self._look is not None and self._look.done()

    def _take_look(self) -> asyncio.Task[HostScan]:
        assert self._look is not None
        look, self._look = self._look, None
        return look

    def _note_hanging_look(self) -> None:
        limit_s = self._settings.look_timeout_s
        why = f"the driver {self.driver.name} has not listed its VMs for {limit_s:g} s: {_HANG_HINT}"
        before = self.state.unavailable
        if before.get("") != why:
            self._become(decisions.with_hanging_look(self.state, why))
            self._log_unavailable(before)
        self._look_at = self._clock() + self._ns(self._settings.look_s)

    def _observe(self, look: HostScan) -> None:
        before, is_early = self.state.unavailable, self._is_look_early
        self.size = look.size
        self._become(
            decisions.observe(
                self.state, look.found, unsure=self._touched, is_for_doubts=is_early, unavailable=look.unavailable
            )
        )
        self._log_unavailable(before)
        # Only the host itself reports that a VM has landed.
        is_landing = any(one.power == "landing" for one in self.state.found.values())
        wait_s = self._settings.landing_look_s if is_landing else self._settings.look_s
        next_at = self._clock() + self._ns(wait_s)
        # Looks for doubts do not put off the one that what is blocked waits for.
        self._look_at = min(self._look_at, next_at) if is_early else next_at

    async def _find(self) -> HostScan:
        """Scan the host. Storage that was out of reach before or after the scan may have been so during it."""
        before = await self.driver.unavailable()
        found = await self.driver.find()
        unavailable = {**before, **await self.driver.unavailable()}
        # The size is that of the file system that is there now.
        size = self.size if unavailable == self.state.unavailable else await self.driver.size()
        return HostScan(found, unavailable, size)

    @contextmanager
    def _logged_if_slow(self) -> Iterator[None]:
        """Log that the driver hangs at the start, when nothing can be reported yet, and wait for it."""
        limit_s = self._settings.look_timeout_s
        line = f"the driver {self.driver.name} has not opened for {limit_s:g} s: {_HANG_HINT}"
        timer = asyncio.get_running_loop().call_later(limit_s, self._log.warn, line)
        try:
            yield
        finally:
            timer.cancel()

    def _log_unavailable(self, before: Mapping[str, str]) -> None:
        now = self.state.unavailable
        for name in sorted({*before, *now}):
            place = f"storage {name}" if name else "the place of local disks"
            if before.get(name) != now.get(name):
                self._log.warn(f"{place} is unavailable: {now[name]}" if name in now else f"{place} is available again")

    async def _begin_lanes(self) -> None:
        room = self._settings.lanes - len(self._lanes)
        actions = decisions.next_actions(self.state, self._clock())[: max(room, 0)]
        for action in actions:
            self._touched.add(action.vm)
            self._become(decisions.begin(self.state, action))
        try:
            await self._save()
        except ManifestError as error:
            self._log.warn(error.message)
            trouble = Trouble(kind="transient", code=error.code, message=error.message, hint=error.hint)
            for action in actions:
                self._end(action, ActionOutcome(trouble=trouble))
            return
        for action in actions:
            lane = asyncio.get_running_loop().create_task(self._lane(action), name=f"{action.verb} {action.vm}")
            self._lanes[action.vm] = lane

    async def _lane(self, action: Action) -> None:
        try:
            outcome = await perform(
                self.driver, action, grace_s=self._settings.grace_s, timeout_s=self._settings.verb_timeout_s
            )
        except asyncio.CancelledError:
            if action.vm not in self._abandoned:
                raise
            message = f"sending {action.vm} was given up for a newer order"
            outcome = ActionOutcome(trouble=Trouble(kind="transient", code="overtaken", message=message))
        self._abandoned.discard(action.vm)
        self._lanes.pop(action.vm, None)
        self._touched.add(action.vm)
        self._log_trouble(action, outcome.trouble)
        self._end(action, outcome)

    def _end(self, action: Action, outcome: ActionOutcome) -> None:
        self.tries = _count_try(self.tries, outcome.trouble)
        self._become(decisions.after_outcome(self.state, action, outcome, self._clock()))

    def _log_trouble(self, action: Action, trouble: Trouble | None) -> None:
        if trouble is None:
            self._repeats.forget(action.vm)
            return
        line = self._repeats.worth_saying(action.vm, f"{action.verb} of {action.vm}: {trouble.message}")
        if line:
            self._log.warn(line)

    async def _save(self) -> None:
        records = dict(self.state.records)
        changed = [record for vm, record in records.items() if self._saved.get(vm) != record]
        forgotten = [vm for vm in self._saved if vm not in records]
        if changed or forgotten:
            await self._manifest.save(changed, forgotten)
            self._saved = records

    async def _wait(self) -> None:
        now = self._clock()
        due = decisions.next_due(self.state, now)
        until = min(self._look_at, due if due is not None else self._look_at)
        try:
            async with asyncio.timeout(max(until - now, 0) / _SECOND):
                await self._wake.wait()
        except TimeoutError:
            return

    def _become(self, state: AgentState) -> None:
        if state is not self.state:
            self.state = state
            self._wake.set()
            self.news.set()

    @staticmethod
    def _ns(seconds: float) -> int:
        return int(seconds * _SECOND)


def _count_try(tries: Tries, trouble: Trouble | None) -> Tries:
    """Return the counts with one more try."""
    kind = trouble.kind if trouble is not None else "done"
    return msgspec.structs.replace(tries, **{kind: getattr(tries, kind) + 1})


def tries_since(told: Tries, now: Tries) -> Tries | None:
    """Return the tries since the last report; None if there are none."""
    kinds = Tries.__struct_fields__
    return Tries(**{kind: getattr(now, kind) - getattr(told, kind) for kind in kinds}) if now != told else None


async def perform(driver: Driver, action: Action, *, grace_s: float, timeout_s: float | None = None) -> ActionOutcome:
    """Carry out an action on a driver within its time. Errors become troubles; only a cancellation is raised."""
    try:
        if timeout_s is None:
            return await _call(driver, action, grace_s)
        async with asyncio.timeout(timeout_s + grace_s):
            return await _call(driver, action, grace_s)
    except Exception as error:  # a driver's bug must not end the agent that keeps the other VMs
        return ActionOutcome(trouble=trouble_of(error, action))


def trouble_of(error: Exception, action: Action) -> Trouble:
    """Classify a failure."""
    if isinstance(error, DriverError):
        return Trouble(kind=_kind_of(error), code=error.code, message=error.message, hint=error.hint)
    if isinstance(error, TimeoutError):
        message = f"{action.verb} of {action.vm} took too long and was given up"
        return Trouble(kind="transient", code="driver_timeout", message=message, hint="it is tried again")
    return Trouble(
        kind="transient",
        code="driver_broke",
        message=f"{action.verb} of {action.vm} broke: {type(error).__name__}: {error}",
        hint="please report it; it is tried again",
    )


def _kind_of(error: DriverError) -> Literal["transient", "permanent", "blocked"]:
    if isinstance(error, BlockedError):
        return "blocked"
    return "permanent" if isinstance(error, PermanentError) else "transient"


async def _call(driver: Driver, action: Action, grace_s: float) -> ActionOutcome:
    vm, order = action.vm, action.order
    if action.verb is DriverVerb.FORGET:
        return ActionOutcome()
    if order is None:
        raise InternalError(f"{action.verb} of {vm} without an order")
    match action.verb:
        case DriverVerb.CREATE:
            await driver.create(order)
        case DriverVerb.START:
            await driver.start(vm)
        case DriverVerb.STOP | DriverVerb.RESTART:
            await driver.stop(vm, grace_s=grace_s)
        case DriverVerb.PAUSE:
            await driver.pause(vm)
        case DriverVerb.RESUME:
            await driver.resume(vm)
        case DriverVerb.RESIZE:
            await driver.resize(vm, order)
        case DriverVerb.DELETE:
            # What makes way for the same VM must not take its disks with it.
            await driver.delete(vm, keeps_shared=order.keeps_shared or order.power != "absent")
        case DriverVerb.AWAIT_LANDING:
            return ActionOutcome(landing=await driver.await_landing(order))
        case DriverVerb.SEND:
            if action.landing is None:
                raise InternalError(f"no target is known for {vm}")
            await driver.send(vm, action.landing)
    return ActionOutcome()
