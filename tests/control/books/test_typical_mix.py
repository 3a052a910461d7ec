"""The typical mix of placed VMs: the leader writes it into the log, so that all replicas measure by it."""

from __future__ import annotations

import msgspec

from hostler.config.fleet.file import DeviceRequestEntry
from hostler.control.settings import declared_policies
from hostler.control.store.history import log
from hostler.engine import Engine
from hostler.model import Device, Host, HostJoined, PolicyChanged, amounts
from hostler.queries import with_placed_mixes
from hostler.queries.mixes import RENEW_NS, USUAL_MIX
from tests.control.books.replica_setup import GIB, SETTINGS, BooksReplica, ReplicaSetup, all_placed, at_rest

SHARE = DeviceRequestEntry(kind="gpu", milli=250)
BY_FGD = msgspec.structs.replace(SETTINGS, strategy="fgd")


async def add_gpu_host(setup: ReplicaSetup) -> None:
    """Let a host with four gpus join."""
    capacity = amounts({"cpu": 64_000, "memory": 256 * GIB, "storage": 1000 * GIB})
    host = Host(name="host-0", uid="h0", version=2, capacity=capacity, devices=(Device("gpu", "T4"),) * 4)
    entry = log.NewEntry(at_ns=setup.clock(), kind="fact", body=msgspec.json.encode(HostJoined(host=host)))
    await setup.database.write(lambda connection: log.append(connection, [entry]))


async def mixes_in_the_log(setup: ReplicaSetup) -> list[PolicyChanged]:
    """Return the facts of the log that changed mixes alone."""
    facts = [entry.body for entry in await setup.entries() if entry.kind == "fact"]
    changes = [msgspec.json.decode(body, type=PolicyChanged) for body in facts if b'"policy_changed"' in body]
    return [change for change in changes if not change.wakes]


def mix_of(engine: Engine) -> object:
    return next(policy.mix for policy in engine.policies if policy.name == "fgd")


async def test_leader_renews_the_mix_once_a_minute_and_replicas_follow(database):
    setup = ReplicaSetup(database)
    await setup.build(1)
    await add_gpu_host(setup)
    leader = await BooksReplica(setup.books("a", BY_FGD)).start()
    other = await BooksReplica(setup.books("b", BY_FGD)).start()
    await setup.create("first", devices=[SHARE])
    await setup.create("second", devices=[SHARE])
    await all_placed(setup, "first", "second")
    assert mix_of(leader.books._follower.engine) == USUAL_MIX
    assert await mixes_in_the_log(setup) == []

    setup.now += RENEW_NS
    await setup.create("third", devices=[SHARE])
    await all_placed(setup, "third")
    await at_rest(setup, leader.books, other.books)
    (change,) = await mixes_in_the_log(setup)
    for replica in (leader, other):
        engine = replica.books._follower.engine
        assert engine.policies == change.policies == with_placed_mixes(declared_policies(BY_FGD), engine.view)
    assert mix_of(leader.books._follower.engine) != USUAL_MIX

    setup.now += RENEW_NS
    await setup.create("fourth", devices=[SHARE])
    await all_placed(setup, "fourth")
    assert await mixes_in_the_log(setup) == [change], "a mix that is still the same is no fact"
    await other.stop()
    await leader.stop()


async def test_successor_begins_with_the_mix_of_the_vms_that_run(database):
    setup = ReplicaSetup(database)
    await setup.build(1)
    await add_gpu_host(setup)
    first = await BooksReplica(setup.books("a", BY_FGD)).start()
    await setup.create("first", devices=[SHARE])
    await all_placed(setup, "first")
    await at_rest(setup, first.books)
    await first.stop()
    successor = await BooksReplica(setup.books("b", BY_FGD)).start()
    await setup.create("second", devices=[SHARE])
    await all_placed(setup, "second")
    assert mix_of(successor.books._follower.engine) != USUAL_MIX
    await successor.stop()
