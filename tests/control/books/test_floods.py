"""A flood that never rests: decision state is saved all the same, else nothing of the log could ever be forgotten."""

from __future__ import annotations

import asyncio

import msgspec

from hostler.control.books import ledger
from hostler.control.books.follower import Follower
from hostler.control.store import Connection, log
from hostler.control.vms import wishes
from hostler.control.vms.spec import VmSpec
from tests.control.books.town import Replica, Town, at_rest
from tests.wait import until

VMS = 200  # each leaves several entries in the log


class Flooded(Town):
    """A town in which somebody asks for another VM whenever the leader looks at the clock, as before each step."""

    asked = VMS
    saved: log.Checkpoint | None = None  # the last one while the flood went on

    def clock(self) -> int:
        now_ns = super().clock()
        if self.asked < VMS:
            self.asked += 1
            self.database.submit(lambda connection: self._ask(connection, f"vm-{self.asked}", now_ns)).result(60)
            self.saved = self.database.read_now(log.latest_checkpoint)
        return now_ns

    def _ask(self, connection: Connection, name: str, now_ns: int) -> None:
        change = wishes.create(name, "default", name, VmSpec(cpu=1, memory="1Gi"))
        ledger.insert(connection, change, actor="tester", now_ns=now_ns)


def test_decision_state_is_saved_while_facts_wait_without_end_and_whoever_begins_with_it_knows_the_same(database):
    async def scene() -> None:
        town = Flooded(database)
        await town.build(3, cpu=100, memory_gib=200)
        replica = await Replica(town.books("a")).start()
        await until(lambda: replica.books.is_leader)
        await at_rest(town, replica.books)
        town.asked = 0
        await until(lambda: town.asked == VMS)
        saved = town.saved
        assert saved is not None
        assert msgspec.msgpack.decode(saved.body)["read"] > saved.seq, "facts waited when it was saved"
        await at_rest(town, replica.books)
        other = Follower.restore(saved)
        other.read([entry for entry in await town.entries() if entry.seq > saved.seq])
        known, _ = await replica.books.ask(lambda engine: engine.checkpoint())
        assert other.checkpoint(0).seq == other.seq, "no fact waits"
        assert other.engine.checkpoint() == known
        await replica.stop()

    asyncio.run(scene())
