"""Name order: integers that sort like names, whatever the order in which names come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.cluster.tables import NameOrder
from tests.engine.fleet import QUICK

names = st.text(st.sampled_from("abAZ09-.é"), min_size=1, max_size=4)


def ordered(*known: str) -> NameOrder:
    order = NameOrder()
    for name in known:
        order.add(name)
    return order


def check(order: NameOrder, expected: set[str]) -> None:
    """The names are sorted, each has a key of its own, and the keys sort like the names."""
    assert order.names == sorted(expected)
    assert set(order.keys) == expected
    keys = [order.keys[name] for name in order.names]
    assert keys == sorted(set(keys))
    assert all(0 < key < 2**63 for key in keys), "0 stands for no name, and kernels hold 64 bits"


@given(steps=st.lists(st.tuples(st.sampled_from(["add", "remove", "many"]), st.sets(names, min_size=1, max_size=5))))
@QUICK
def test_keys_sort_like_names_after_any_coming_and_going(steps):
    order = NameOrder()
    known: set[str] = set()
    for what, some in steps:
        if what == "many":
            order.add_many(sorted(some - known, reverse=True))
            known |= some
        elif what == "add":
            for name in some - known:
                order.add(name)
            known |= some
        else:
            for name in some & known:
                order.remove(name)
            known -= some
        check(order, known)


@given(first=st.sets(names, max_size=12), late=st.lists(names, unique=True, max_size=12))
@QUICK
def test_a_new_name_changes_no_key_unless_it_says_so(first, late):
    order = NameOrder()
    order.add_many(first)
    for name in late:
        if name in first:
            continue
        before = dict(order.keys)
        if not order.add(name):
            assert {n: order.keys[n] for n in before} == before


@pytest.mark.parametrize(
    "known",
    [
        pytest.param([f"{i:03}" for i in range(300)], id="each after the last"),
        pytest.param([f"{i:03}" for i in reversed(range(300))], id="each before the first"),
        pytest.param(
            ["a", "c", *("b" + "a" * i + "b" for i in reversed(range(200)))], id="each into one gap from above"
        ),
        pytest.param(["a", "c", *("b" + "z" * i for i in range(200))], id="each into one gap from below"),
    ],
)
def test_names_that_crowd_into_one_place_still_find_room(known):
    check(ordered(*known), set(known))


def test_crowding_is_reported_so_that_columns_can_be_written_again():
    order = ordered("a", "c")
    dealt = [order.add("b" + "z" * i) for i in range(100)]
    assert any(dealt)
    assert sum(dealt) < len(dealt) / 10, "dealing again is rare"


@given(known=st.sets(names, max_size=10), asked=names)
@QUICK
def test_the_key_up_to_a_name_is_that_of_the_last_name_not_after_it(known, asked):
    order = NameOrder()
    order.add_many(known)
    not_after = [name for name in known if name <= asked]
    assert order.key_up_to(asked) == (order.keys[max(not_after)] if not_after else 0)


def test_no_name_at_all_has_the_key_zero():
    assert ordered("a").key_up_to("") == 0
    assert NameOrder().key_up_to("a") == 0


def test_a_turn_after_a_name_that_left_begins_where_that_name_was():
    order = ordered("1", "2", "3")
    order.remove("2")
    assert order.keys["1"] == order.key_up_to("2") < order.keys["3"]


def test_a_name_that_came_back_is_at_its_old_place():
    order = ordered("1", "2", "3")
    order.remove("2")
    order.add("2")
    check(order, {"1", "2", "3"})


def test_a_copy_and_its_original_do_not_disturb_each_other():
    order = ordered("a", "c")
    twin = order.copy()
    twin.add("b")
    order.remove("c")
    check(order, {"a"})
    check(twin, {"a", "b", "c"})
    order.add_many(["x", "y"])
    check(twin, {"a", "b", "c"})
