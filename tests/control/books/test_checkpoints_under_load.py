"""Under endless load, decision state is still saved; otherwise the log could never be shortened."""

from __future__ import annotations

import msgspec

from hostler.control.books import ledger
from hostler.control.books.follower import Follower
from hostler.control.store import Connection
from hostler.control.store.history import log
from hostler.control.vms import desired_state
from hostler.control.vms.spec import VmSpec
from tests.control.books.replica_setup import BooksReplica, ReplicaSetup, at_rest
from tests.wait import until

VMS = 200  # each leaves several entries in the log


class FloodedReplica(ReplicaSetup):
    """A setup in which a VM is created whenever the leader reads the clock, as before each step."""

    asked = VMS
    saved: log.StoredCheckpoint | None = None  # the last one while the flood went on

    def clock(self) -> int:
        now_ns = super().clock()
        if self.asked < VMS:
            self.asked += 1
            self.database.submit(lambda connection: self._ask(connection, f"vm-{self.asked}", now_ns)).result(60)
            self.saved = self.database.read_now(log.checkpoint_before)
        return now_ns

    def _ask(self, connection: Connection, name: str, now_ns: int) -> None:
        change = desired_state.create(name, "default", name, VmSpec(cpu=1, memory="1Gi"))
        ledger.insert(connection, change, actor="tester", now_ns=now_ns)


async def test_checkpoint_is_saved_while_facts_never_stop_waiting(database):
    setup = FloodedReplica(database)
    await setup.build(3, cpu=100, memory_gib=200)
    replica = await BooksReplica(setup.books("a")).start()
    await until(lambda: replica.books.is_leader)
    await at_rest(setup, replica.books)
    setup.asked = 0
    await until(lambda: setup.asked == VMS)
    saved = setup.saved
    assert saved is not None
    assert msgspec.msgpack.decode(saved.body)["read"] > saved.seq, "facts waited when it was saved"
    await at_rest(setup, replica.books)
    other = Follower.restore(saved)
    other.read([entry for entry in await setup.entries() if entry.seq > saved.seq])
    known, _ = await replica.books.ask(lambda engine: engine.checkpoint())
    assert other.checkpoint(0).seq == other.seq, "no fact waits"
    assert other.engine.checkpoint() == known
    await replica.stop()
