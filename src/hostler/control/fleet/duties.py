"""What the leader does about hosts by itself: it judges silence, takes proofs, drains, and removes old history.

Each transaction checks the epoch of the lease. Times are our own steady times: every wait starts again after a
takeover, and after this process was suspended. So a leader never judges a host that it had no time to hear.

An agent that could not reach us may pause for ``longest_pause_s`` before its next try. So a host that was not heard
since we began is neither called silent nor fenced before that time plus ``silent_after_s``. After most hosts were
silent at once, no host is fenced for as long. A host that was heard since is judged after ``silent_after_s``.

``run_fence_command`` runs an operator's own proof that a host is dead. It is trusted if it exits with 0.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

from hostler.control.books.decisions import LEADER
from hostler.control.fleet import presence
from hostler.control.fleet.agent_service import AgentService
from hostler.control.fleet.errors import HostAliveError, HostDeletedError
from hostler.control.fleet.hosts.drains import drain_step
from hostler.control.fleet.hosts.host_body import is_unregistered, read_body
from hostler.control.fleet.hosts.host_writes import get_live_host
from hostler.control.fleet.hosts.restored_vms import has_waiting, missing_hosts, order_again
from hostler.control.fleet.hosts.silence import (
    SILENT,
    has_restartable,
    lose_late_placements,
    lose_stopped_vms,
    mark_dead,
    mark_silent,
)
from hostler.control.fleet.retention import keep_forgetting
from hostler.control.fleet.times import SECOND, wait
from hostler.control.fleet.watchdog_times import NEVER_S, proof_after_s
from hostler.control.store import Connection
from hostler.control.store.errors import NotFoundError
from hostler.control.store.history import lease
from hostler.control.store.rows import hosts, placements
from hostler.control.store.rows.hosts import HostCredentialRow
from hostler.errors import HostlerError

__all__ = ["Duties", "run_fence_command"]

T = TypeVar("T")

_TOGETHER = 64  # hosts judged in one commit
_NAMED = 10  # hosts, in a line of the log


class Duties:
    """The duties of one replica; it does nothing while another leads."""

    def __init__(self, fleet: AgentService) -> None:
        self._fleet = fleet
        self._epoch = 0
        self._began = 0  # the end of our first reading of hosts; 0 before that
        self._looked = 0
        self._most_silent_at: int | None = None  # when we last saw more than half of the hosts silent
        self._since: dict[str, tuple[int, int]] = {}  # host to its epoch and when we first saw it with that
        self._judged: dict[str, int] = {}  # host to the epoch that began when we ourselves found it silent
        self._told: dict[str, tuple[int, float]] = {}  # silent host to its epoch and what its watchdog goes by
        self._watched: dict[str, int] = {}  # host to the epoch in which its watchdog's proof was taken
        self._fencing: dict[str, asyncio.Task[None]] = {}
        self._fence_at: dict[str, int] = {}
        self._move_at: dict[str, int] = {}
        self._was_restore_told = False
        self._may_be_restored = True  # until a look found nothing that waits since a restore

    async def run(self, stopping: asyncio.Event) -> None:
        """Do what is due again and again until told to stop; removing history delays no check of hosts."""
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_forgetting(self._fleet, stopping), name="tidying")
            await self._keep_looking(stopping)

    async def _keep_looking(self, stopping: asyncio.Event) -> None:
        try:
            while not stopping.is_set():
                try:
                    await self.look()
                except HostlerError as error:
                    self._fleet.tell(f"duties: {error.message}")
                await wait(stopping, self._fleet.times.look_s)
        finally:
            tasks = list(self._fencing.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> None:
        """Do once what is due now."""
        fleet = self._fleet
        if not fleet.books.is_leader:
            self._epoch = 0
            return
        self._begin_if_new(fleet.books.epoch)
        fleet.credentials.invalidate()
        await fleet.credentials.refresh()
        if fleet.database.is_shared:
            fleet.presence.take_hearsay(await fleet.database.read(presence.read_hearsay), fleet.books.replica)
        rows = list(fleet.credentials.rows.values())
        self._remember(rows)
        self._note_share(rows)
        await self._judge([row for row in rows if row.state == "ready" and self._is_silent(row)])
        await self._learn_told([row for row in rows if row.state in SILENT])
        for row in rows:
            if row.state in SILENT:
                await self._prove(row)
            if row.state == "fenced":
                await self._clear(row)
            if row.is_draining and row.state == "ready":
                await self._drain(row)
        await self._order_again()

    async def _order_again(self) -> None:
        """Resume orders of restored VMs once all hosts have registered, and log what is missing until then."""
        fleet = self._fleet
        if not self._was_restore_told:
            self._was_restore_told = True
            self._tell_missing(await fleet.database.read(missing_hosts))
        if self._may_be_restored:
            self._may_be_restored = await fleet.database.read(has_waiting)
        if not self._may_be_restored:
            return
        count = await self._write(lambda connection: order_again(connection, now_ns=fleet.clock()))
        if count:
            fleet.tell(
                f"all hosts have registered since the restore: orders go out again about {_counted(count, 'VM')}"
            )

    def _tell_missing(self, names: Sequence[str]) -> None:
        if not names:
            return
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        self._fleet.tell(
            f"{_counted(len(names), 'host')} must register again since the restore, and until then VMs of the backup "
            f"get no orders: {', '.join(names[:_NAMED])}{more}; if one is gone for good, confirm that it is dead"
        )

    def _begin_if_new(self, epoch: int) -> None:
        """Restart all waits if we just began to lead, or were suspended for so long that we heard nothing."""
        now, settings = self._fleet.steady(), self._fleet.settings
        was_deaf = now - self._looked > settings.silent_after_s / 2 * SECOND
        if self._epoch != epoch or was_deaf:
            self._epoch, self._began = epoch, 0
            self._since, self._judged, self._watched, self._fence_at, self._move_at = {}, {}, {}, {}, {}
        self._looked = now

    def _remember(self, rows: Sequence[HostCredentialRow]) -> None:
        now = self._fleet.steady()
        # What other replicas told before we began was read just now, and looks as new as this: it is not later.
        self._began = self._began or now
        known = self._since
        self._since = {
            row.id: known[row.id] if row.id in known and known[row.id][0] == row.epoch else (row.epoch, now)
            for row in rows
        }

    async def _write(self, work: Callable[[Connection], T]) -> T:
        epoch = self._epoch

        def checked(connection: Connection) -> T:
            lease.check_epoch(connection, epoch)
            return work(connection)

        return await self._fleet.database.write(checked)

    # -- silence ---------------------------------------------------------------------------------------------------

    def _is_silent(self, row: HostCredentialRow) -> bool:
        """Say whether a host was unheard for so long that it counts as silent."""
        heard = self._heard_at(row)
        if heard <= self._began:
            return self._could_be_heard_since(self._began)
        return self._fleet.steady() - heard >= self._fleet.settings.silent_after_s * SECOND

    def _heard_at(self, row: HostCredentialRow) -> int:
        """Return when a ready host was last heard, including its registration with any replica."""
        return max(self._fleet.presence.heard_at(row.id) or 0, self._since[row.id][1])

    def _could_be_heard_since(self, moment: int) -> bool:
        """Say whether every live agent had the time to reach us since then, after its longest pause."""
        fleet = self._fleet
        enough_s = fleet.settings.silent_after_s + fleet.times.longest_pause_s
        return fleet.steady() - moment >= enough_s * SECOND

    def _note_share(self, rows: Sequence[HostCredentialRow]) -> None:
        """Note whether more than half of the hosts are silent, or are about to be.

        If we cannot be reached, hosts become silent one by one within a heartbeat. The first ones must not be fenced
        before the others count.
        """
        fleet = self._fleet
        settings = fleet.settings
        quiet_s = max(settings.silent_after_s - settings.heartbeat_s, 1.5 * settings.heartbeat_s)
        quiet_since = fleet.steady() - int(quiet_s * SECOND)
        silent = sum(
            1 for one in rows if one.state in SILENT or (one.state == "ready" and self._heard_at(one) <= quiet_since)
        )
        alive_hosts = sum(1 for one in rows if one.state in ("ready", *SILENT))
        if silent * 2 > alive_hosts:
            self._most_silent_at = fleet.steady()

    async def _judge(self, rows: Sequence[HostCredentialRow]) -> None:
        for start in range(0, len(rows), _TOGETHER):
            some = rows[start : start + _TOGETHER]
            await asyncio.gather(*(self._judge_one(row) for row in some))

    async def _judge_one(self, row: HostCredentialRow) -> None:
        fleet = self._fleet
        fleet.sessions.drop(row.id)  # before it is written: what comes now must be a registration
        now_ns = fleet.clock()

        def work(connection: Connection) -> int | None:
            now = get_live_host(connection, row.id)
            if now.state != "ready" or now.epoch != row.epoch:
                return None
            text = f"not heard for {fleet.settings.silent_after_s:g} s"
            if is_unregistered(now):
                text = f"{text}, and has not registered since the restore: VMs of the backup wait for it"
            return mark_silent(connection, now, state="silent", actor=LEADER, text=text, now_ns=now_ns).epoch

        epoch = await self._quietly(self._write(work))
        if epoch is not None:
            self._judged[row.id] = epoch

    # -- proofs ----------------------------------------------------------------------------------------------------

    async def _prove(self, row: HostCredentialRow) -> None:
        fleet = self._fleet
        now, since = fleet.steady(), self._since[row.id][1]
        is_due = now - since >= self._watchdog_s(row) * SECOND
        if is_due and self._watched.get(row.id) != row.epoch:
            await self._quietly(
                self._write(
                    lambda connection: lose_stopped_vms(connection, row.id, epoch=row.epoch, now_ns=fleet.clock())
                )
            )
            self._watched[row.id] = row.epoch
        if fleet.settings.fence_command and row.id not in self._fencing and now >= self._fence_at.get(row.id, 0):
            await self._begin_to_fence(row)

    def _watchdog_s(self, row: HostCredentialRow) -> float:
        """Return after how much silence a host's watchdog has certainly stopped its VMs.

        If this leader found the host silent, it knows how long the host had no answer. If the host was forced offline,
        or another leader found it silent by other settings, or another replica answers it from an old cache, the host
        may have had an answer later.
        """
        fleet = self._fleet
        epoch, told_s = self._told.get(row.id, (row.epoch, 0.0))
        if epoch != row.epoch:
            return NEVER_S  # it came back since we looked
        is_ours = self._judged.get(row.id) == row.epoch and not fleet.database.is_shared
        unheard_s = fleet.settings.silent_after_s if is_ours else None
        return proof_after_s(told_s, fleet.settings, fleet.times, unheard_s=unheard_s)

    async def _learn_told(self, rows: Sequence[HostCredentialRow]) -> None:
        """Read the stop ages of silent hosts' watchdogs, once for each epoch: only a registration changes them."""
        known = self._told
        self._told = {row.id: known[row.id] for row in rows if row.id in known and known[row.id][0] == row.epoch}
        new = [row.id for row in rows if row.id not in self._told]
        if new:
            found = await self._fleet.database.read(lambda connection: hosts.find_some(connection, new))
            self._told |= {host: (row.epoch, read_body(row).told_stop_s) for host, row in found.items()}

    async def _begin_to_fence(self, row: HostCredentialRow) -> None:
        """Fence a host whose VMs then start elsewhere, unless it may be us who cannot be reached."""
        if not self._may_fence(row):
            return
        if await self._fleet.database.read(lambda connection: has_restartable(connection, row.id)):
            self._fencing[row.id] = asyncio.get_running_loop().create_task(self._fence(row), name=f"fence {row.name}")

    def _may_fence(self, row: HostCredentialRow) -> bool:
        """Say whether the silence of a host is its own.

        While most hosts are silent, it is more likely that we cannot be reached, and fencing is left to people. When we
        are reachable again, agents return one by one, so the last of them gets as much time as after a start.
        """
        if self._most_silent_at is not None and not self._could_be_heard_since(self._most_silent_at):
            return False
        was_heard = (self._fleet.presence.heard_at(row.id) or 0) > self._began
        return was_heard or self._could_be_heard_since(self._began)

    async def _fence(self, row: HostCredentialRow) -> None:
        fleet = self._fleet
        command, times = fleet.settings.fence_command, fleet.times
        again_s = times.fence_again_s
        try:
            why_not = await run_fence_command(command, host=row.name, identity=row.id, timeout_s=times.fence_timeout_s)
            if why_not:
                fleet.tell(f"host {row.name} is not fenced: {why_not}")
                return
            proof, epoch = f"{command[0]} fenced it", row.epoch
            await self._write(
                lambda connection: mark_dead(connection, row.id, proof, epoch=epoch, actor=LEADER, now_ns=fleet.clock())
            )
        except (HostDeletedError, NotFoundError):
            pass
        except HostAliveError as error:
            fleet.tell(f"host {row.name} was fenced, but that proves nothing now: {error.message}")
            again_s = 0.0  # if it is silent again, that is another silence
        except HostlerError as error:
            fleet.tell(f"host {row.name} was fenced, but that could not be stored: {error.message}")
        finally:
            self._fence_at[row.id] = fleet.steady() + int(again_s * SECOND)
            self._fencing.pop(row.id, None)

    async def _clear(self, row: HostCredentialRow) -> None:
        """Release late placements on a dead host: a decision may have been in progress when it was declared dead."""
        fleet = self._fleet
        if await fleet.database.read(lambda connection: placements.of_host(connection, row.id)):
            await self._quietly(
                self._write(lambda connection: lose_late_placements(connection, row.id, now_ns=fleet.clock()))
            )

    # -- draining --------------------------------------------------------------------------------------------------

    async def _drain(self, row: HostCredentialRow) -> None:
        fleet = self._fleet
        now = fleet.steady()
        self._move_at = {vm: at for vm, at in self._move_at.items() if at > now}
        without = set(self._move_at)

        def work(connection: Connection) -> tuple[list[str], bool]:
            return drain_step(
                connection, row.id, at_once=fleet.times.moves_at_once, without=without, now_ns=fleet.clock()
            )

        moved = await self._quietly(self._write(work))
        if moved is not None:
            again = now + int(fleet.times.move_again_s * SECOND)
            self._move_at |= dict.fromkeys(moved[0], again)

    async def _quietly(self, writing: Coroutine[None, None, T]) -> T | None:
        """Await a write about a host that may have been deleted, or come back, since we checked."""
        try:
            return await writing
        except (HostAliveError, HostDeletedError, NotFoundError):
            return None


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


_KEPT = ("PATH", "HOME", "LANG")  # of our environment, which may hold secrets


async def run_fence_command(command: Sequence[str], *, host: str, identity: str, timeout_s: float) -> str:
    """Run the fencing command for a host; return why it is no proof, or an empty text if it is one."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment |= {"HOSTLER_HOST": host, "HOSTLER_HOST_ID": identity}
    nowhere = asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=environment
        )
    except OSError as error:
        return f"{command[0]} cannot be run: {(error.strerror or str(error)).lower()}"
    try:
        async with asyncio.timeout(timeout_s):
            code = await process.wait()
    except TimeoutError:
        return f"{command[0]} took longer than {timeout_s:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return "" if code == 0 else f"{command[0]} exited with {code}"
