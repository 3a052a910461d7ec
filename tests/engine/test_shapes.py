"""Shapes: equal specs share a number; shapes without guests are kept a while and then forgotten, never one in use."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.cluster.shapes import ShapeTable
from hostler.engine.cluster.tables import Tables
from hostler.errors import FactError
from hostler.model import DeviceRequest, Expression, GuestSpec, Term, WeightedTerm, amounts
from tests.engine.fleet import QUICK, spec
from tests.engine.small_samples import several_devices
from tests.engine.small_samples import specs as small_specs

MANY = 1500  # more idle shapes than are kept


def sized(number: int) -> GuestSpec:
    return GuestSpec(requests=(("cpu", number + 1),))


def renumbered(wanted: GuestSpec) -> GuestSpec:
    """Return an equal spec that is another object."""
    return msgspec.convert(msgspec.to_builtins(wanted), GuestSpec)


# -- numbers ----------------------------------------------------------------------------------------------------------


@given(specs=st.lists(small_specs(several_devices), max_size=8))
@QUICK
def test_specs_share_a_number_exactly_when_they_are_equal(specs):
    table = ShapeTable(Tables())
    number_of: dict[GuestSpec, int] = {}
    for wanted in specs:
        number = table.number(wanted)
        assert number == table.number(renumbered(wanted)) == number_of.setdefault(wanted, number)
        assert table.shapes[number].spec == wanted
        assert table.shapes[number].number == number
    assert len(set(number_of.values())) == len(number_of)


@given(size=st.dictionaries(st.sampled_from(["guests", "cpu", "memory", "fpga", "license"]), st.integers(0, 9)))
@QUICK
def test_a_shape_asks_for_what_its_spec_asks_for_and_for_one_place(size):
    tables = Tables()
    tables.resources.acquire("fpga")
    tables.resources.acquire("license")
    table = ShapeTable(tables)
    shape = table.shapes[table.number(GuestSpec(requests=tuple(sorted(size.items()))))]
    asked = {tables.resources.values[number]: amount for number, amount in shape.amounts}
    assert asked == {name: n for name, n in size.items() if n} | {"guests": size.get("guests", 0) or 1}
    assert [number for number, _ in shape.amounts] == sorted(number for number, _ in shape.amounts)


def test_shape_without_requests_is_scored_as_kubernetes_assumes():
    table = ShapeTable(Tables())
    mib = 2**20
    for wanted, expected in (
        (GuestSpec(), (100, 200 * mib)),
        (GuestSpec(requests=amounts({"cpu": 7})), (7, 200 * mib)),
        (GuestSpec(requests=amounts({"cpu": 7}), scored_requests=amounts({"cpu": 9, "memory": 5})), (9, 5)),
    ):
        assert table.shapes[table.number(wanted)].scored == expected


@pytest.mark.parametrize(
    ("requests", "tag"),
    [
        pytest.param((), -1, id="no devices"),
        pytest.param((DeviceRequest("nic"),), -1, id="devices of another kind"),
        pytest.param((DeviceRequest("gpu", 1, 999),), 0, id="a share of one gpu"),
        pytest.param((DeviceRequest("gpu"),), 1, id="one whole gpu"),
        pytest.param((DeviceRequest("gpu", 2, 500),), 2, id="shares of two count as two"),
        pytest.param((DeviceRequest("gpu", 16),), 16, id="sixteen"),
        pytest.param((DeviceRequest("gpu", 64),), 16, id="sixteen stands for more"),
        pytest.param((DeviceRequest("nic"), DeviceRequest("gpu", 3)), 3, id="behind another request"),
    ],
)
def test_guests_are_told_apart_by_how_many_gpus_they_take(requests, tag):
    table = ShapeTable(Tables())
    assert table.shapes[table.number(GuestSpec(devices=requests))].tag == tag


IMPOSSIBLE = [
    pytest.param({"requests": (("cpu", -1),)}, id="a negative amount"),
    pytest.param({"requests": (("cpu", 2**62 + 1),)}, id="an amount beyond 2^62"),
    pytest.param({"scored_requests": (("memory", 2**44 + 1),)}, id="a score beyond 2^44"),
    pytest.param({"devices": (DeviceRequest("gpu", 0),)}, id="no devices"),
    pytest.param({"devices": (DeviceRequest("gpu", 1, 0),)}, id="devices of nothing"),
    pytest.param({"devices": (DeviceRequest("gpu", 1, 1001),)}, id="more than a whole device"),
    pytest.param({"devices": (DeviceRequest("gpu"),) * 17}, id="seventeen requests"),
    pytest.param(
        {"preferred_hosts": (WeightedTerm(1_000_001, Term((Expression("x"),))),)}, id="a preference beyond a million"
    ),
]


@pytest.mark.parametrize("fields", IMPOSSIBLE)
def test_an_impossible_spec_is_refused_and_takes_no_number(fields):
    tables = Tables()
    table = ShapeTable(tables)
    table.number(GuestSpec())
    with pytest.raises(FactError):
        table.number(GuestSpec(**{"requests": (("new", 1),)} | fields))
    assert table.specs_by_number() == [GuestSpec()]
    assert tables.resources.find("new") == -1
    assert table.number(sized(1)) == 1


# -- forgetting -------------------------------------------------------------------------------------------------------


def pass_by(table: ShapeTable, first: int, last: int) -> list[int]:
    """Let guests of many shapes come and go; return the numbers that were forgotten meanwhile."""
    freed = []
    for number in range(first, last):
        shape = table.number(sized(number))
        table.acquire(shape)
        freed += table.release(shape)
    return freed


def test_a_shape_without_guests_keeps_its_number_for_a_while():
    table = ShapeTable(Tables())
    first = table.number(sized(0))
    assert pass_by(table, 0, 500) == []
    assert table.number(sized(0)) == first


def test_shapes_of_guests_that_are_gone_do_not_pile_up():
    table = ShapeTable(Tables())
    freed = pass_by(table, 0, 3 * MANY)
    assert len(table.shapes) < MANY
    assert len(freed) == 3 * MANY - sum(kept is not None for kept in table.specs_by_number())


def test_the_shape_that_was_idle_longest_is_forgotten_first():
    table = ShapeTable(Tables())
    freed = pass_by(table, 0, MANY)
    assert freed == list(range(len(freed)))
    kept = table.specs_by_number()
    assert all(sized(number) not in kept for number in range(len(freed)))
    assert all(sized(number) in kept for number in range(len(freed), MANY))


def test_shape_in_use_is_never_forgotten():
    table = ShapeTable(Tables())
    held = table.number(sized(0))
    table.acquire(held)
    table.acquire(held)
    table.release(held)
    assert held not in pass_by(table, 1, 2 * MANY)
    assert table.number(renumbered(sized(0))) == held
    assert table.shapes[held].spec == sized(0)


def test_a_shape_that_was_wanted_again_counts_as_fresh():
    table = ShapeTable(Tables())
    pass_by(table, 0, 10)
    again = table.number(sized(0))
    table.acquire(again)
    table.release(again)
    freed = pass_by(table, 10, 1030)
    assert freed
    assert again not in freed


def bulky(number: int) -> GuestSpec:
    """Return a spec of 64 KiB."""
    return GuestSpec(labels=tuple((f"{number}-{at}", "x" * 1000) for at in range(64)))


def test_shapes_that_are_long_are_forgotten_the_sooner():
    table = ShapeTable(Tables())
    for number in range(200):
        come_and_go(table, bulky(number))
    kept = [spec for spec in table.specs_by_number() if spec is not None]
    assert 1 < len(kept) < 50
    assert all(bulky(number) in kept for number in range(200 - len(kept), 200))
    assert sum(shape.spec.labels != () for shape in table.shapes) == len(kept), "a spec that nobody has is still held"


def test_one_shape_is_kept_however_long_it_is():
    table = ShapeTable(Tables())
    huge = GuestSpec(labels=tuple((f"{at}", "x" * 1000) for at in range(4000)))
    shape = table.number(huge)
    table.acquire(shape)
    assert table.release(shape) == []
    assert table.number(huge) == shape


def test_a_table_that_was_copied_or_restored_forgets_as_much():
    table = ShapeTable(Tables())
    for number in range(20):
        table.acquire(table.number(bulky(number)))
    restored = ShapeTable(Tables())
    restored.restore(table.specs_by_number())
    for number in range(20):
        restored.acquire(number)
    for twin in (table.copy(Tables()), restored):
        for number in range(20):
            assert twin.release(number) == []
        freed = [one for number in range(100, 130) for one in come_and_go(twin, bulky(number))]
        assert freed[:5] == [0, 1, 2, 3, 4]


def come_and_go(table: ShapeTable, spec: GuestSpec) -> list[int]:
    """Let one guest come and go; return the numbers that were forgotten."""
    shape = table.number(spec)
    table.acquire(shape)
    return table.release(shape)


def leave_at_once(table: ShapeTable) -> tuple[list[GuestSpec], list[int]]:
    """Let very many guests come and then all go; return their specs and the numbers that were forgotten."""
    specs = [sized(number) for number in range(MANY)]
    for each in specs:
        table.acquire(table.number(each))
    return specs, [number for each in specs for number in table.release(table.number(each))]


def test_forgotten_number_is_reused_and_never_for_two_specs():
    table = ShapeTable(Tables())
    specs, freed = leave_at_once(table)
    fresh = {table.number(sized(MANY + number)) for number in range(len(freed))}
    assert fresh == set(freed)
    live = [each for each in table.specs_by_number() if each is not None]
    assert len(set(live)) == len(live)
    assert table.number(specs[0]) not in fresh, "a forgotten spec is as good as new, even as the same object"


@given(moves=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=40))
@QUICK
def test_guests_are_counted_by_shape(moves):
    """Whatever is held at the end survives a thousand passers-by; what is not held does not."""
    table, held = ShapeTable(Tables()), [0] * 6
    for takes, which in moves:
        if takes:
            table.acquire(table.number(sized(which)))
            held[which] += 1
        elif held[which]:
            table.release(table.number(sized(which)))
            held[which] -= 1
    pass_by(table, 100, 100 + 1100)
    kept = table.specs_by_number()
    assert [sized(which) in kept for which in range(6)] == [bool(count) for count in held]


# -- saved and copied -------------------------------------------------------------------------------------------------


def test_what_was_saved_comes_back_under_the_same_numbers_holes_included():
    table = ShapeTable(Tables())
    keeper = table.number(spec(gpu=(1, 500)))
    table.acquire(keeper)
    _, freed = leave_at_once(table)
    assert freed
    saved = table.specs_by_number()
    assert {number for number, each in enumerate(saved) if each is None} == set(freed)
    twin = ShapeTable(Tables())
    twin.restore(saved)
    assert twin.specs_by_number() == saved
    for number, each in enumerate(saved):
        if each is not None:
            assert twin.number(renumbered(each)) == number
            assert twin.shapes[number].amounts == table.shapes[number].amounts
    assert twin.number(spec(cpu=7, gpu=(2, 1000))) in freed, "holes are filled first"


def test_a_copy_forgets_and_learns_on_its_own():
    tables = Tables()
    table = ShapeTable(tables)
    first = table.number(sized(0))
    table.acquire(first)
    twin = table.copy(tables.copy())
    twin.release(first)
    pass_by(twin, 1, MANY)
    assert sized(0) not in twin.specs_by_number()
    assert table.specs_by_number() == [sized(0)]
    assert table.number(sized(0)) == first
    table.acquire(first)
    table.release(first)
    pass_by(table, 1, MANY)
    assert sized(0) in table.specs_by_number(), "its guest is still there"
