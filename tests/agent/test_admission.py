"""The ledger of a host: what fits is granted once, what does not is refused with the missing amount."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agent.core.admission import (
    MOST,
    NOTHING,
    Amounts,
    HostAllocations,
    what_a_running_vm_takes,
    what_a_stopped_vm_takes,
)
from hostler.agent.messages import Disk, Order

GIB = 2**30
SIZE = Amounts(8000, 8 * GIB, 0)


def ledger(cpus=8, gib=16, **options):
    return HostAllocations(Amounts(cpus * 1000, gib * GIB, 100 * GIB), **options)


def amounts(cpus, gib=0):
    return Amounts(cpus * 1000, gib * GIB, 0)


def test_what_fits_exactly_is_granted_and_one_more_is_refused():
    books = ledger()
    books.hold("old", amounts(4, 8))
    assert not books.claim("new", amounts(4, 8))
    assert books.claim("more", amounts(1)) == "cpu: 1 more wanted, 0 free"


def test_the_same_room_cannot_be_spent_twice():
    books = ledger(4)
    assert not books.claim("first", amounts(3))
    assert books.claim("second", amounts(2))
    books.hold("first", NOTHING)
    assert not books.claim("second", amounts(2))


def test_a_refused_claim_books_nothing():
    books = ledger(4)
    assert books.claim("a", amounts(5))
    assert books.used == (0, 0, 0)


def test_a_shrink_claims_nothing_and_gives_back_when_it_is_done():
    books = ledger(4)
    books.hold("a", amounts(4))
    assert not books.claim("a", amounts(1))
    assert books.free.cpu_millis == 0
    books.hold("a", amounts(1))
    assert books.free.cpu_millis == 3000


def test_a_resize_claims_only_what_it_grows_by():
    books = ledger(4, 4)
    books.hold("a", amounts(3, 4))
    assert not books.claim("a", amounts(4, 2))
    assert books.claim("a", amounts(5, 2))


def test_an_overcommitted_host_starts_nothing():
    books = ledger(4)
    books.hold("a", amounts(6))
    assert books.claim("b", amounts(1))
    assert books.free == (0, 16 * GIB, 100 * GIB)


def test_an_unknown_inventory_is_a_full_host():
    books = ledger(is_known=False)
    assert "not known" in books.claim("a", amounts(1))
    assert books.free == (0, 0, 0)
    books.hold("b", amounts(2))
    assert not books.claim("b", amounts(1)), "what shrinks needs no room"


def test_sums_stop_at_the_largest_number():
    books = HostAllocations(Amounts(MOST, MOST, MOST))
    books.hold("a", Amounts(MOST, MOST, MOST))
    books.hold("b", Amounts(MOST, 1, 0))
    assert books.used == (MOST, MOST, MOST)
    assert books.claim("c", Amounts(1, 0, 0))


def test_a_stopped_vm_takes_its_local_disks_only():
    order = Order(
        vm="a",
        generation=1,
        power="running",
        cpu_millis=2000,
        memory_bytes=GIB,
        disks=(Disk(size_bytes=5), Disk(size_bytes=7, storage="shared")),
    )
    assert what_a_stopped_vm_takes(order) == (0, 0, 5)
    assert what_a_running_vm_takes(order) == (2000, GIB, 5)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["claim", "give back"]), st.integers(0, 6), st.integers(0, 6))
    )
)
def test_claims_never_exceed_the_host(steps):
    books = HostAllocations(SIZE)
    for vm, what, cpus, gib in steps:
        if what == "claim":
            books.claim(vm, amounts(cpus, gib))
        else:
            books.hold(vm, NOTHING)
        assert all(used <= total for used, total in zip(books.used, SIZE, strict=True))


@pytest.mark.parametrize("wanted", [Amounts(1, 0, 0), Amounts(0, 1, 0), Amounts(0, 0, 1)])
def test_every_resource_counts(wanted):
    assert HostAllocations(Amounts()).claim("a", wanted)
