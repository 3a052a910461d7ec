"""Interning: numbers in order of first sight, never reused, and bounded where names come from outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.tables import MAX_DEVICE_NAMES, MAX_RESOURCES, MAX_SUBJECTS, ReasonTable, Table, Tables
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


def test_a_table_that_is_refilled_knows_nothing_of_before():
    table: Table[str] = Table(["a", "b"])
    held = table.values
    table.refill(["c", "a"])
    assert (table.find("a"), table.find("b"), table.find("c")) == (1, -1, 0)
    assert table.number("d") == 2
    assert held is table.values, "whoever holds the list sees the new values"


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


def crowded() -> ReasonTable:
    table = ReasonTable()
    for number in range(2 * MAX_SUBJECTS):
        table.number(Reason("taints", "untolerated_taint", f"t{number}"))
    return table


def test_very_many_subjects_share_one_code():
    table = crowded()
    assert len(table) == MAX_SUBJECTS + 1
    late = table.number(Reason("taints", "untolerated_taint", "a late one"))
    assert table.values[late] == Reason("taints", "untolerated_taint")
    assert late == table.number(Reason("taints", "untolerated_taint", "another"))


def test_a_subject_that_has_a_code_keeps_it_however_many_follow():
    table = ReasonTable()
    early = Reason("taints", "untolerated_taint", "early")
    code = table.number(early)
    for number in range(2 * MAX_SUBJECTS):
        table.number(Reason("taints", "untolerated_taint", f"t{number}"))
    assert table.number(early) == code


def test_reasons_of_different_plugins_are_told_apart_even_when_there_are_very_many():
    table = crowded()
    codes = [
        table.number(reason)
        for reason in (
            Reason("taints", "untolerated_taint", "new"),
            Reason("resources", "insufficient", "new"),
            Reason("devices", "no_device", "new"),
            Reason("devices", "wrong_device_model", "new"),
            Reason("cordon", "cordoned"),
        )
    ]
    assert len(set(codes)) == 5


def test_a_copy_of_the_reasons_is_bounded_too():
    twin = crowded().copy()
    before = len(twin)
    twin.number(Reason("taints", "untolerated_taint", "one more"))
    assert len(twin) == before


# -- all names of an engine -------------------------------------------------------------------------------------------


def test_the_resources_with_a_meaning_have_their_numbers_from_the_start():
    assert [Tables().resources.find(name) for name in ("guests", "cpu", "memory", "storage")] == [0, 1, 2, 3]


def test_reasons_about_resources_and_devices_name_them():
    tables = Tables()
    fpga = tables.kinds.number("fpga")
    assert tables.reasons.values[tables.insufficient(1)] == Reason("resources", "insufficient", "cpu")
    assert [tables.reasons.values[code] for code in tables.device_codes(fpga)] == [
        Reason("devices", "no_device", "fpga"),
        Reason("devices", "wrong_device_model", "fpga"),
        Reason("devices", "insufficient_devices", "fpga"),
    ]
    assert tables.device_codes(fpga) == tables.device_codes(fpga) != tables.device_codes(tables.kinds.number("gpu"))


BOUNDS = [
    pytest.param("resources", MAX_RESOURCES, "resources", id="resources"),
    pytest.param("kinds", MAX_DEVICE_NAMES, "device kinds", id="device kinds"),
    pytest.param("models", MAX_DEVICE_NAMES, "device models", id="device models"),
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
    while len(table) < most:
        table.number(f"n{len(table)}")
    asked = {"resources": ()} | {which: [*table.values, *table.values]}
    tables.check_room(**asked)
    with pytest.raises(FactError):
        tables.check_room(**asked | {which: ["one more"]})


def test_a_new_name_said_twice_needs_room_once():
    tables = Tables()
    while len(tables.resources) < MAX_RESOURCES - 1:
        tables.resources.number(f"n{len(tables.resources)}")
    tables.check_room(["same", "same"])


def test_a_copy_of_all_tables_goes_its_own_way():
    tables = Tables()
    twin = tables.copy()
    for table in (twin.resources, twin.kinds, twin.models):
        table.number("new")
    twin.insufficient(0)
    assert [t.find("new") for t in (tables.resources, tables.kinds, tables.models)] == [-1, -1, -1]
    assert len(tables.reasons) == 1
