"""Room for raw scores: a pool of entries that grows to a bound and uses again what is given back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.cache.wide_rows import WideRows
from tests.engine.fleet import QUICK


def claimed(pool: WideRows, count: int) -> list[int]:
    return [pool.claim() for _ in range(count)]


def tight() -> WideRows:
    """A pool whose entries are so large that few fit the budget."""
    return WideRows(rows=400_000, scorers=1, normalized=0)


@given(moves=st.lists(st.booleans(), max_size=60), rows=st.integers(1, 5), scorers=st.integers(1, 3))
@QUICK
def test_no_entry_is_given_out_twice(moves, rows, scorers):
    pool = WideRows(rows, scorers, 1)
    held: set[int] = set()
    for takes in moves:
        if takes or not held:
            entry = pool.claim()
            assert entry >= 0
            assert entry not in held
            assert all(entry < len(array) for array in (pool.base, pool.raw, pool.outer))
            held.add(entry)
        else:
            pool.release(held.pop())


def test_every_entry_has_room_for_all_rows_and_scorers():
    pool = WideRows(rows=7, scorers=3, normalized=2)
    claimed(pool, 5)
    assert (pool.base.shape[1:], pool.raw.shape[1:], pool.outer.shape[1:]) == ((7,), (2, 7), (3, 7))


def test_growing_keeps_what_was_written():
    pool = WideRows(rows=2, scorers=2, normalized=1)
    entries = []
    for number in range(20):
        entry = pool.claim()
        pool.base[entry], pool.raw[entry], pool.outer[entry] = number, number + 100, number + 200
        entries.append(entry)
    for number, entry in enumerate(entries):
        assert set(pool.base[entry].tolist()) == {number}
        assert set(pool.raw[entry].ravel().tolist()) == {number + 100}
        assert set(pool.outer[entry].ravel().tolist()) == {number + 200}


def test_a_pool_begins_small_and_grows_with_what_is_asked():
    pool = WideRows(rows=1000, scorers=4, normalized=2)
    assert len(pool.base) < 9
    claimed(pool, 9)
    assert 9 <= len(pool.base) <= 18


def test_a_pool_that_is_spent_says_so_and_recovers():
    pool = tight()
    entries = claimed(pool, pool.most)
    assert sorted(entries) == list(range(pool.most))
    assert pool.claim() == -1
    assert len(pool.base) == pool.most
    pool.release(entries[3])
    assert pool.claim() == entries[3]
    assert pool.claim() == -1


def test_the_bound_shrinks_with_the_size_of_an_entry_but_not_below_sixteen():
    sizes = [WideRows(rows, scorers, 1).most for rows, scorers in ((64, 1), (64, 8), (4096, 8), (10**6, 8))]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3] == 16


def test_entries_within_the_bound_take_about_a_hundred_megabytes():
    for rows, scorers, normalized in ((64, 1, 0), (1000, 4, 2), (50_000, 3, 1)):
        pool = WideRows(rows, scorers, normalized)
        assert pool.most * 8 * rows * (1 + scorers + normalized) <= 100 * 2**20
