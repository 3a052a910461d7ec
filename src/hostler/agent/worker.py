"""The hands of an agent: keeps the core's state, makes records durable, and runs one lane per VM on the driver.

Order of things, on which everything after a crash depends: the core says what to do, the lanes are taken, the records
are safe on disk, and only then the driver acts. Used by ``process``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from hostler.agent import core
from hostler.agent.drivers.driver import Driver, Found
from hostler.agent.executor import perform
from hostler.agent.manifest import Manifest, ManifestError
from hostler.agent.messages import HostSize, Orders, Tries, Trouble
from hostler.agent.planning import plan
from hostler.agent.repeats import Repeats
from hostler.agent.reporting import gone, reports, taken, unavailable, unknown, unknown_left_out
from hostler.agent.settings import Settings
from hostler.agent.state import NEVER, Action, Outcome, Record, State, Verb
from hostler.agent.telling import Telling
from hostler.agent.tries import counted
from hostler.errors import HostlerError

__all__ = ["Worker"]

_SECOND = 1_000_000_000
_AFTER_FAILED_LOOK_S = 1.0


class Worker:
    """What an agent does on its host. ``news`` is set whenever there may be something to report."""

    def __init__(
        self,
        driver: Driver,
        manifest: Manifest,
        settings: Settings,
        *,
        clock: Callable[[], int],
        tell: Callable[[str], None],
    ) -> None:
        self.driver = driver
        self.news = asyncio.Event()
        self.size = HostSize(cpu_millis=0, memory_bytes=0)
        self.state = State(limit=self.size)
        self.tries = Tries()  # since this agent started
        self._manifest = manifest
        self._settings = settings
        self._clock = clock
        self._tell = tell
        self._saved: dict[str, Record] = {}
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._abandoned: set[str] = set()
        self._touched: set[str] = set()
        self._wake = asyncio.Event()
        self._look_at = 0
        self._repeats = Repeats()

    async def open(self) -> None:
        """Get ready: what was recorded, what is there. VMs that run are adopted as they are."""
        await self.driver.open()
        inventory = await self._manifest.load()
        self._saved = {record.vm: record for record in inventory.records}
        self.size = await self.driver.size()
        if inventory.set_aside:
            self._tell(f"inventory unknown: unreadable records are set aside: {', '.join(inventory.set_aside)}")
        self.state = core.first_state(self.size, inventory.records, is_inventory_known=not inventory.set_aside)
        found, unavailable = await self._find()
        self.state = core.observe(self.state, found, unavailable=unavailable)
        self._tell_unavailable({})
        self._look_at = self._clock() + self._ns(self._settings.look_s)

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._wake.clear()
            if self._clock() >= self._look_at or self.state.doubts.keys() - self.state.busy.keys():
                await self._look()
            await self._begin_lanes()
            await self._wait()

    async def close(self) -> None:
        """Let actions end that end soon, give up on the others, and leave the VMs running."""
        lanes = list(self._lanes.values())
        if lanes:
            await asyncio.wait(lanes, timeout=self._settings.shutdown_s)
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)
        try:
            await self._save()
        except ManifestError as error:
            self._tell(f"records could not be saved: {error.message}")
        await self.driver.close()

    def take(self, orders: Orders) -> None:
        """Take orders in; a sending that they overtake is given up."""
        self._become(core.take(self.state, orders))
        for vm, action in self.state.busy.items():
            order = self.state.orders.get(vm)
            is_overtaken = order is not None and action.order is not None and order.generation > action.order.generation
            if action.verb is Verb.SEND and is_overtaken and vm in self._lanes:
                self._abandoned.add(vm)
                self._lanes[vm].cancel()

    def registered(self, limit: HostSize | None) -> None:
        """Take in what the host may give, and expect all orders anew."""
        self._become(core.reregistered(self.state, limit or self.size))

    def heard(self, sent_at: int, stop_after_s: float) -> None:
        """Take in that the control plane knew of us at that time: VMs that silence stops may be started until later."""
        until = sent_at + self._ns(stop_after_s) if stop_after_s > 0 else NEVER
        if self._clock() >= self.state.silent_at:
            self._wake.set()
        self.state = msgspec.structs.replace(self.state, silent_at=until)

    def telling(self) -> Telling:
        """Return all that there is to say now."""
        planned = plan(self.state, self._clock())
        return Telling(
            version=self.state.version,
            vms=reports(self.state, planned),
            gone=gone(self.state),
            unknown=unknown(self.state),
            unknown_left_out=unknown_left_out(self.state),
            taken=taken(self.state),
            refused_teardown=planned.refused_teardown,
            unavailable=unavailable(self.state),
        )

    async def _look(self) -> None:
        self._touched = set(self._lanes)
        is_early = self._clock() < self._look_at
        try:
            found, unavailable = await self._find()
            if unavailable != self.state.unavailable:
                self.size = await self.driver.size()  # of the file system that is there now
        except Exception as error:  # a driver's bug must not end the agent
            why = error.message if isinstance(error, HostlerError) else f"{type(error).__name__}: {error}"
            self._tell(f"cannot look at the host: {why}")
            await asyncio.sleep(_AFTER_FAILED_LOOK_S)
            return
        before = self.state.unavailable
        self._become(
            core.observe(self.state, found, unsure=self._touched, is_for_doubts=is_early, unavailable=unavailable)
        )
        self._tell_unavailable(before)
        # Nobody tells when a VM has landed but the host itself.
        is_landing = any(one.power == "landing" for one in self.state.found.values())
        wait_s = self._settings.landing_look_s if is_landing else self._settings.look_s
        next_at = self._clock() + self._ns(wait_s)
        # Looks for doubts do not put off the one that what is blocked waits for.
        self._look_at = min(self._look_at, next_at) if is_early else next_at

    async def _find(self) -> tuple[list[Found], dict[str, str]]:
        """Look at the host. Storage that is out of reach before or after the look may have been so during it."""
        before = await self.driver.unavailable()
        found = await self.driver.find()
        return found, {**before, **await self.driver.unavailable()}

    def _tell_unavailable(self, before: Mapping[str, str]) -> None:
        now = self.state.unavailable
        for name in sorted({*before, *now}):
            place = f"storage {name}" if name else "the place of local disks"
            if before.get(name) != now.get(name):
                self._tell(f"{place} is unavailable: {now[name]}" if name in now else f"{place} is available again")

    async def _begin_lanes(self) -> None:
        room = self._settings.lanes - len(self._lanes)
        actions = core.next_actions(self.state, self._clock())[: max(room, 0)]
        for action in actions:
            self._touched.add(action.vm)
            self._become(core.begin(self.state, action))
        try:
            await self._save()
        except ManifestError as error:
            self._tell(error.message)
            trouble = Trouble(kind="transient", code=error.code, message=error.message, hint=error.hint)
            for action in actions:
                self._end(action, Outcome(trouble=trouble))
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
            outcome = Outcome(trouble=Trouble(kind="transient", code="overtaken", message=message))
        self._abandoned.discard(action.vm)
        self._lanes.pop(action.vm, None)
        self._touched.add(action.vm)
        self._tell_trouble(action, outcome.trouble)
        self._end(action, outcome)

    def _end(self, action: Action, outcome: Outcome) -> None:
        self.tries = counted(self.tries, outcome.trouble)
        self._become(core.after(self.state, action, outcome, self._clock()))

    def _tell_trouble(self, action: Action, trouble: Trouble | None) -> None:
        if trouble is None:
            self._repeats.forget(action.vm)
            return
        line = self._repeats.worth_saying(action.vm, f"{action.verb} of {action.vm}: {trouble.message}")
        if line:
            self._tell(line)

    async def _save(self) -> None:
        records = dict(self.state.records)
        changed = [record for vm, record in records.items() if self._saved.get(vm) != record]
        forgotten = [vm for vm in self._saved if vm not in records]
        if changed or forgotten:
            await self._manifest.save(changed, forgotten)
            self._saved = records

    async def _wait(self) -> None:
        now = self._clock()
        due = core.next_due(self.state, now)
        until = min(self._look_at, due if due is not None else self._look_at)
        try:
            async with asyncio.timeout(max(until - now, 0) / _SECOND):
                await self._wake.wait()
        except TimeoutError:
            return

    def _become(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            self._wake.set()
            self.news.set()

    @staticmethod
    def _ns(seconds: float) -> int:
        return int(seconds * _SECOND)
