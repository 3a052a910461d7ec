"""What tests of the books need: a database, hosts as rows and facts, replicas, a clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import text

from hostler.control.books import ledger
from hostler.control.books.books import Books
from hostler.control.books.follower import Step
from hostler.control.settings import ControlSettings
from hostler.control.store import Database
from hostler.control.store.errors import LeaseLostError
from hostler.control.store.history import log
from hostler.control.store.rows import hosts, placements, projects
from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from hostler.control.vms.state import Vm
from hostler.model import Host, HostJoined, amounts
from tests.wait import until

GIB = 2**30
SECOND = 1_000_000_000
# A lease outlives whatever a busy machine does; where its time is to be over, ``run_out`` says so.
SETTINGS = ControlSettings(lease_ttl_s=3600.0, renew_s=0.1, checkpoint_every=40)
SOON_S = 11  # who was woken is tried again after a pause of up to ten seconds


class ReplicaSetup:
    """A project, hosts and VMs in a database, and replicas that follow it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.now = 1_700_000_000 * SECOND
        self.said: list[str] = []

    def clock(self) -> int:
        return self.now + time.monotonic_ns()

    def books(self, name: str, settings: ControlSettings = SETTINGS, database: Any = None) -> Books:
        return Books(database or self.database, settings, replica=name, clock=self.clock, tell=self.said.append)

    async def build(self, count: int, *, cpu: int = 8, memory_gib: int = 32) -> None:
        """Make a project and hosts."""

        def work(connection) -> None:
            projects.insert(connection, ProjectRow(name="default"))
            for number in range(count):
                self._add_host(connection, number, cpu, memory_gib)

        await self.database.write(work)

    async def add_host(self, number: int, *, cpu: int = 8, memory_gib: int = 32) -> None:
        await self.database.write(lambda connection: self._add_host(connection, number, cpu, memory_gib))

    def _add_host(self, connection, number: int, cpu: int, memory_gib: int) -> None:
        row = hosts.insert(connection, HostRow(id=f"h{number}", name=f"host-{number}", state="ready"))
        capacity = amounts({"cpu": cpu * 1000, "memory": memory_gib * GIB, "storage": 1000 * GIB})
        fact = HostJoined(host=Host(name=row.name, uid=row.id, version=1, capacity=capacity))
        entry = log.NewEntry(at_ns=self.now, kind="fact", body=msgspec.json.encode(fact), subject=row.id)
        log.append(connection, [entry])

    async def create(self, name: str, *, cpu: int = 1, memory: str = "1Gi", ahead_ns: int = 0, **more: Any) -> None:
        """Ask for a VM, by an id that is its name, at a replica whose clock may be ahead."""
        change = desired_state.create(name, "default", name, VmSpec(cpu=cpu, memory=memory, **more))
        await self.database.write(
            lambda connection: ledger.insert(connection, change, actor="tester", now_ns=self.clock() + ahead_ns)
        )

    async def wish(self, name: str, wish: Callable[..., Any], *words: Any) -> None:
        """Ask for something about a VM."""

        def work(connection) -> None:
            before = ledger.load(connection, name)
            ledger.write(connection, before, wish(before.vm, *words), actor="tester", now_ns=self.clock())

        await self.database.write(work)

    async def vm(self, name: str) -> Vm:
        return (await self.database.read(lambda connection: ledger.load(connection, name))).vm

    async def where(self, *names: str) -> dict[str, str]:
        found = await self.database.read(lambda connection: ledger.load_many(connection, names))
        return {name: one.vm.home.name if one.vm.home is not None else "" for name, one in found.items()}

    async def entries(self) -> list[log.StoredEntry]:
        return await self.database.read(lambda connection: log.read_after(connection, 0, 100_000))

    async def run_out(self) -> None:
        """Let the time of the lease be over, without waiting for it."""
        sooner = text("UPDATE lease SET renewed_ms = renewed_ms - 2 * ttl_ms")
        await self.database.write(lambda connection: connection.execute(sooner).rowcount)

    async def kept(self) -> dict[str, int]:
        """Return the cpu that is kept on each host, by the rows."""
        rows = await self.database.read(placements.all_rows)
        found: dict[str, int] = {}
        for row in rows:
            found[row.host] = found.get(row.host, 0) + row.cpu_millis
        return found


class BooksReplica:
    """Books that live in a task; ``kill`` ends them as a crash would, with the lease not given back."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.stopping = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> BooksReplica:
        await self.books.open()
        self.task = asyncio.ensure_future(self.books.run(self.stopping))
        return self

    async def stop(self) -> None:
        self.stopping.set()
        if self.task is not None:
            await self.task
        await self.books.close()

    async def kill(self) -> None:
        self.books.leadership.held = None  # so that nothing is given back
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.books.close()


async def all_placed(setup: ReplicaSetup, *names: str) -> None:
    async def condition() -> bool:
        found = await setup.where(*names)
        return all(found.get(name) for name in names)

    await until(condition)


async def at_rest(setup: ReplicaSetup, leader: Books, *others: Books) -> None:
    """Wait until the leader has nothing more to write, and everybody has read what was written."""

    async def is_so() -> bool:
        entries = await setup.entries()
        head = entries[-1].seq if entries else 0
        if any(books.seq != head or books._follower.is_torn for books in (leader, *others)):
            return False
        known = [msgspec.json.decode(entry.body, type=Step).upto for entry in entries if entry.kind == "step"]
        facts = [entry.seq for entry in entries if entry.kind == "fact"]
        due, _ = await leader.ask(lambda engine: engine.next_due())
        is_idle = due is None or due > setup.clock() + SOON_S * SECOND
        return (
            is_idle and max(facts, default=0) <= max(known, default=0) and await setup.database.read(log.head) == head
        )

    await until(is_so)


class FaultyDatabase:
    """A database whose writes can go wrong in a scripted way: before they are carried out, or after."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.script: list[tuple[str, Exception]] = []  # ("before" | "after", what is raised)
        self.played = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def write(self, work: Any) -> Any:
        is_step = getattr(work, "__qualname__", "").startswith("Books._step")
        if not is_step or not self.script:
            return await self._database.write(work)
        when, error = self.script.pop(0)
        self.played += 1
        if when == "after":
            await self._database.write(work)
        raise error


def deposed() -> LeaseLostError:
    return LeaseLostError("another replica has it", hint="")


class SlowDatabase:
    """A database that never comes to write a step."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reached = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def write(self, work: Any) -> Any:
        if getattr(work, "__qualname__", "").startswith("Books._step"):
            self.reached.set()
            await asyncio.Event().wait()
        return await self._database.write(work)
