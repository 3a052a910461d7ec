"""A checkpoint with a bit that its disk lost: it is noticed wherever the bit is, and what is before it is used."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest
from sqlalchemy import text

from hostler.control.books.follower import DivergedError, Follower
from hostler.control.store import Database
from hostler.control.store.history import log
from hostler.control.store.history.log import StoredCheckpoint
from hostler.engine import Engine
from tests.control.books.replica_setup import BooksReplica, all_placed
from tests.control.books.test_recovery import lived_through

REGIONS = 64
FLIPS = 6  # of each region
EDGE = 96  # bytes at both ends whose bits are all flipped: names of fields, lengths, the digest


def kept(database: Database) -> StoredCheckpoint:
    """Return the newest checkpoint of a service that has placed VMs."""

    async def story() -> StoredCheckpoint:
        setup = await lived_through(database)
        found = await setup.database.read(log.checkpoint_before)
        assert found is not None
        return found

    return asyncio.run(story())


def flip(body: bytes, bit: int) -> bytes:
    damaged = bytearray(body)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def sample(size: int, seed: int = 16) -> list[int]:
    """Return bits of every region of a body: all of both ends, some of each region between."""
    rng = random.Random(seed)
    bits = {*range(8 * min(EDGE, size)), *range(8 * max(size - EDGE, 0), 8 * size)}
    for region in range(REGIONS):
        begin, end = (8 * size * edge // REGIONS for edge in (region, region + 1))
        bits.update(rng.randrange(begin, end) for _ in range(FLIPS) if begin < end)
    return sorted(bits)


def test_flipped_bit_in_any_region_of_a_checkpoint_is_noticed(database):
    good = kept(database)
    unnoticed = []
    bits = sample(len(good.body))
    assert len(bits) > 1500
    for bit in bits:
        damaged = msgspec.structs.replace(good, body=flip(good.body, bit))
        try:
            Follower.restore(damaged)
        except DivergedError:
            continue
        unnoticed.append(bit)
    assert not unnoticed, f"{len(unnoticed)} of {len(bits)} flips in {len(good.body)} bytes, as of bit {unnoticed[:8]}"
    assert Follower.restore(good).seq == good.seq


@pytest.mark.parametrize("column", ["seq", "at_ns", "format"])
def test_flipped_bit_in_a_column_beside_the_body_is_noticed(database, column):
    good = kept(database)
    value = getattr(good, column)
    if column == "format":
        others = [flip(value.encode(), bit).decode("latin-1") for bit in range(8 * len(value))]
    else:
        others = [value ^ 1 << bit for bit in range(63)]
    for other in others:
        with pytest.raises(DivergedError):
            Follower.restore(msgspec.structs.replace(good, **{column: other}))


@pytest.mark.parametrize("form", ["hostler-engine-1", "hostler-engine-between-1"])
def test_checkpoint_of_a_release_without_digests_is_read(database, form):
    """The two forms that were written before there were digests."""
    good = kept(database)
    known = msgspec.msgpack.decode(good.body)
    assert set(known) == {"read", "engine", "digest"}
    plain = known["engine"]
    body = plain if form == "hostler-engine-1" else msgspec.msgpack.encode({"read": good.seq, "engine": plain})
    found = Follower.restore(StoredCheckpoint(seq=good.seq, at_ns=good.at_ns, format=form, body=body))
    assert found.seq == good.seq
    assert found.checkpoint(good.at_ns) == good, "the next one has a digest"
    assert Engine.restore(plain).checkpoint() == plain


@pytest.mark.parametrize("count", [1, 2])
async def test_service_with_flipped_bits_falls_back_and_goes_on(database, count):
    """The newest checkpoint, or both: it begins with the older one, or with the log, and decides as before."""

    setup = await lived_through(database)
    head = await setup.database.read(log.head)
    await flip_newest(database, count)
    replica = await BooksReplica(setup.books("second")).start()
    assert replica.books.is_ready
    assert replica.books.seq >= head
    assert replica.books.unusable_checkpoints == count
    said = [line for line in setup.said if "its bytes are not those that were written" in line]
    assert len(said) == count, setup.said
    homes = await setup.where("a", "b", "c")
    await setup.create("d")
    await all_placed(setup, "d")
    assert await setup.where("a", "b", "c") == homes
    await replica.stop()


async def flip_newest(database: Database, count: int) -> None:
    """Flip one bit in the middle of the newest checkpoints, where only amounts are."""

    def work(connection) -> None:
        before: int | None = None
        for _ in range(count):
            found = log.checkpoint_before(connection, before)
            assert found is not None
            before = found.seq
            values = {"body": flip(found.body, 4 * len(found.body)), "seq": found.seq}
            connection.execute(text("UPDATE checkpoints SET body = :body WHERE seq = :seq"), values)

    await database.write(work)
