"""Interning: numbers in order of first sight, used again after a release, and bounded where names come from outside."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.cluster.tables import (
    MAX_KINDS,
    MAX_MODELS,
    MAX_RESOURCES,
    NameTable,
    ReasonTable,
    Table,
    Tables,
)
from hostler.errors import FactError
from hostler.model import Reason
from tests.engine.fleet import QUICK

# -- tables -----------------------------------------------------------------------------------------------------------


@given(values=st.lists(st.text(max_size=3)))
@QUICK
def test_values_are_numbered_in_order_of_first_sight(values):
    table: Table[str] = Table()
    seen: list[str] = []
    for value in values:
        if value not in seen:
            assert table.find(value) == -1
            seen.append(value)
        assert table.number(value) == table.find(value) == seen.index(value)
    assert table.values == seen
    assert len(table) == len(seen)


def test_looking_a_value_up_does_not_number_it():
    table: Table[str] = Table(["a"])
    assert table.find("b") == -1
    assert table.values == ["a"]


def test_released_number_goes_to_the_next_new_value():
    table: Table[str] = Table(["a", "b"])
    table.release("a", "")
    assert (table.find("a"), table.used, len(table)) == (-1, 1, 2)
    assert (table.number("c"), table.number("d")) == (0, 2)


def test_a_copy_of_a_table_has_the_same_numbers_and_goes_its_own_way():
    table: Table[str] = Table(["a", "b"])
    twin = table.copy()
    assert twin.number("c") == 2
    assert table.number("d") == 2
    assert (table.find("c"), twin.find("d")) == (-1, -1)


# -- reasons ----------------------------------------------------------------------------------------------------------


def test_the_first_reason_means_that_the_host_fits():
    assert ReasonTable().values == [Reason("", "fits")]
    assert ReasonTable().number(Reason("cordon", "cordoned")) == 1


def test_code_of_a_number_follows_its_name():
    table = ReasonTable()
    code = table.code_by_number("resources", "insufficient", 7, "fpga")
    assert table.code_by_number("resources", "insufficient", 7, "tokens") == code
    assert table.values[code] == Reason("resources", "insufficient", "tokens")


def test_asks_have_codes_by_position_however_many_subjects_there_are():
    table = ReasonTable()
    codes = {
        table.code_by_position(position, Reason("guest_affinity", "anti_affinity", f"text {shape}.{position}"))
        for shape in range(1000)
        for position in range(100)
    }
    assert len(codes) == len(table) - 1 <= 65


# -- names with users -------------------------------------------------------------------------------------------------


def test_name_is_known_while_it_has_users():
    table = NameTable(("cpu", ""), 1)
    first, again = table.acquire("fpga"), table.acquire("fpga")
    assert first == again == table.number("fpga") == 2
    table.drop("fpga")
    assert table.find("fpga") == 2
    table.drop("fpga")
    assert (table.find("fpga"), table.number("fpga")) == (-1, 1)


def test_fixed_name_stays_without_users():
    table = NameTable(("cpu", ""), 1)
    table.acquire("cpu")
    table.drop("cpu")
    table.drop("cpu")
    assert table.find("cpu") == 0


def test_released_number_rests_until_nothing_refers_to_it():
    table = NameTable(("cpu", ""), 1)
    table.acquire("a")
    table.drop("a")
    assert table.acquire("b") == 3, "shapes may still have the number of a"
    table.settle()
    assert table.acquire("c") == 2
    assert table.changed == {"c": None}


@given(steps=st.lists(st.tuples(st.booleans(), st.sampled_from("abcdef")), max_size=60))
@QUICK
def test_table_from_a_checkpoint_numbers_names_as_the_first_one(steps):
    """Names come and go at random; at every step a table that was filled from a checkpoint gives the same numbers."""
    table, twin, users = NameTable(("cpu", ""), 1), NameTable(("cpu", ""), 1), Counter[str]()
    for is_new, name in steps:
        if is_new or users[name]:
            users[name] += 1 if is_new else -1
            for one in (table, twin):
                one.acquire(name) if is_new else one.drop(name)
                one.settle()
        twin = NameTable(("cpu", ""), 1)
        twin.refill(table.values, table.free)
        for known, count in users.items():
            for _ in range(count):
                twin.acquire(known)
        twin.settle()
        assert (twin.values, twin.free) == (table.values, table.free)
        assert table.used == 2 + sum(count > 0 for count in users.values())


# -- all names of an engine -------------------------------------------------------------------------------------------


def test_the_resources_with_a_meaning_have_their_numbers_from_the_start():
    assert [Tables().resources.find(name) for name in ("guests", "cpu", "memory", "storage")] == [0, 1, 2, 3]


def test_reasons_about_resources_and_devices_name_them():
    tables = Tables()
    fpga = tables.kinds.acquire("fpga")
    assert tables.reasons.values[tables.insufficient(1)] == Reason("resources", "insufficient", "cpu")
    assert [tables.reasons.values[code] for code in tables.device_codes(fpga)] == [
        Reason("devices", "no_device", "fpga"),
        Reason("devices", "wrong_device_model", "fpga"),
        Reason("devices", "insufficient_devices", "fpga"),
    ]
    assert tables.device_codes(fpga) == tables.device_codes(fpga) != tables.device_codes(tables.kinds.number("gpu"))


BOUNDS = [
    pytest.param("resources", MAX_RESOURCES, "resources", id="resources"),
    pytest.param("kinds", MAX_KINDS, "device kinds", id="device kinds"),
    pytest.param("models", MAX_MODELS, "device models", id="device models"),
]


@pytest.mark.parametrize(("which", "most", "words"), BOUNDS)
def test_names_are_taken_up_to_a_bound_and_refused_beyond_it(which, most, words):
    tables = Tables()
    table = getattr(tables, which)
    room = most - len(table)
    names = [f"n{i}" for i in range(room + 1)]
    asked = {"resources": ()} | {which: names[:room]}
    tables.check_room(**asked)
    with pytest.raises(FactError, match=words):
        tables.check_room(**asked | {which: names})
    assert table.find("n0") == -1, "asking for room takes none"


@pytest.mark.parametrize(("which", "most", "words"), BOUNDS)
def test_names_that_are_known_need_no_room(which, most, words):
    tables = Tables()
    table = getattr(tables, which)
    names = [f"n{i}" for i in range(most - len(table))]
    for name in names:
        table.acquire(name)
    asked = {"resources": ()} | {which: [*names, *names]}
    tables.check_room(**asked)
    with pytest.raises(FactError):
        tables.check_room(**asked | {which: ["one more"]})
    table.drop(names[0])
    table.settle()
    tables.check_room(**asked | {which: ["one more"]})


def test_a_new_name_said_twice_needs_room_once():
    tables = Tables()
    while len(tables.resources) < MAX_RESOURCES - 1:
        tables.resources.acquire(f"n{len(tables.resources)}")
    tables.check_room(["same", "same"])


def test_a_copy_of_all_tables_goes_its_own_way():
    tables = Tables()
    twin = tables.copy()
    for table in (twin.resources, twin.kinds, twin.models):
        table.acquire("new")
    twin.insufficient(0)
    assert [t.find("new") for t in (tables.resources, tables.kinds, tables.models)] == [-1, -1, -1]
    assert len(tables.reasons) == 1
