"""Marks: columns of labels, taints and cordons say of every row what the host itself would say."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.cluster.marks import Marks
from hostler.model import Expression, Host, Taint, labels
from tests.engine.fleet import QUICK

KEYS = ["zone", "size", "disk"]
VALUES = ["x", "y", "", "7", "-3", "07", "+5", "99999999999999999999", "7.0"]
TAINTS = [Taint("t"), Taint("t", "1"), Taint("u", "", "NoExecute"), Taint("s", "", "PreferNoSchedule")]
ROWS = 6

label_maps = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
hosts = st.builds(
    lambda name, marks, taints, cordoned: Host(
        name=name, labels=labels(marks), taints=tuple(taints), cordoned=cordoned
    ),
    st.sampled_from(["a", "b", "c"]),
    label_maps,
    st.lists(st.sampled_from(TAINTS), unique=True, max_size=2),
    st.booleans(),
)
writes = st.lists(st.tuples(st.integers(0, ROWS - 1), st.none() | hosts), max_size=15)
keys = st.sampled_from([*KEYS, "unheard-of"])
value_lists = st.lists(st.sampled_from(VALUES), max_size=3).map(tuple)
expressions = st.one_of(
    st.builds(Expression, keys, st.sampled_from(["In", "NotIn"]), value_lists),
    st.builds(Expression, keys, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Expression, keys, st.sampled_from(["Gt", "Lt"]), value_lists),
)


def written(steps: list[tuple[int, Host | None]]) -> tuple[Marks, list[Host]]:
    """Return marks after some writes (None clears a row), and the host that each row then holds."""
    marks, model = Marks(), [Host(name="")] * ROWS
    marks.fit(ROWS)
    for row, host in steps:
        if host is None:
            marks.clear(row)
        else:
            marks.write(row, host)
        model[row] = host or Host(name="")
    return marks, model


def rows(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


ALL = rows(*range(ROWS))


@given(steps=writes, expression=expressions)
@QUICK
def test_an_expression_over_columns_says_what_it_says_of_each_host(steps, expression):
    marks, model = written(steps)
    assert marks.matches(expression, ALL).tolist() == [expression.matches(host.labels) for host in model]


@given(steps=writes, expression=expressions, some=st.lists(st.integers(0, ROWS - 1)))
@QUICK
def test_some_rows_are_answered_in_the_order_in_which_they_were_asked(steps, expression, some):
    marks, model = written(steps)
    assert marks.matches(expression, rows(*some)).tolist() == [expression.matches(model[row].labels) for row in some]


@given(steps=writes, names=st.lists(st.sampled_from(["a", "b", "nobody"]), max_size=2))
@QUICK
def test_rows_are_found_by_the_names_of_their_hosts(steps, names):
    marks, model = written(steps)
    assert marks.rows_named(tuple(names), ALL).tolist() == [host.name in names for host in model]


@given(steps=writes)
@QUICK
def test_taints_and_cordons_are_those_of_the_hosts(steps):
    marks, model = written(steps)
    assert [marks.taint_lists.values[number] for number in marks.taints[:ROWS]] == [host.taints for host in model]
    assert marks.cordoned[:ROWS].tolist() == [host.cordoned for host in model]
    assert set(marks.present_taints()) == {host.taints for host in model if host.taints}


@given(before=writes, after=writes)
@QUICK
def test_the_log_names_exactly_the_rows_that_changed(before, after):
    marks, model = written(before)
    position = marks.log_end
    changed = set()
    for row, host in after:
        if host is None:
            marks.clear(row)
            changed.add(row)
        elif host != model[row]:
            changed.add(row)
            marks.write(row, host)
        else:
            marks.write(row, host)
        model[row] = host or Host(name="")
    found = marks.rows_changed_since(position)
    assert found is not None
    assert found.tolist() == sorted(changed)


def test_a_host_that_changes_in_other_ways_is_not_logged():
    marks, _ = written([(0, Host(name="a", labels=labels({"zone": "x"})))])
    position = marks.log_end
    marks.write(0, Host(name="a", labels=labels({"zone": "x"}), version=9, capacity=(("cpu", 5),), rank=3))
    assert marks.log_end == position


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"name": "b"}, id="name"),
        pytest.param({"labels": labels({"zone": "y"})}, id="label"),
        pytest.param({"labels": ()}, id="no label"),
        pytest.param({"taints": (Taint("t"),)}, id="taint"),
        pytest.param({"cordoned": True}, id="cordon"),
    ],
)
def test_every_mark_of_a_host_is_logged_when_it_changes(change):
    host = Host(name="a", labels=labels({"zone": "x"}))
    marks, _ = written([(3, host)])
    position = marks.log_end
    marks.write(3, msgspec.structs.replace(host, **change))
    found = marks.rows_changed_since(position)
    assert found is not None
    assert found.tolist() == [3]


def test_a_log_that_does_not_reach_back_says_so_and_one_that_does_is_right():
    marks = Marks()
    marks.fit(ROWS)
    for turn in range(150_000):
        marks.write(turn % 2, Host(name="a", cordoned=turn % 4 < 2))
    assert marks.rows_changed_since(0) is None
    marks.write(4, Host(name="c"))
    found = marks.rows_changed_since(marks.log_end - 1)
    assert found is not None
    assert found.tolist() == [4]
    found = marks.rows_changed_since(marks.log_end)
    assert found is not None
    assert found.tolist() == []


@given(steps=writes, expression=expressions)
@QUICK
def test_room_for_more_rows_changes_nothing_about_the_others(steps, expression):
    marks, model = written(steps)
    marks.fit(ROWS + 40)
    marks.fit(3)  # less than there is: nothing happens
    model += [Host(name="")] * 40
    wide = rows(*range(ROWS + 40))
    assert marks.matches(expression, wide).tolist() == [expression.matches(host.labels) for host in model]
    assert not marks.cordoned[ROWS:].any()
    marks.write(ROWS + 39, Host(name="late", labels=labels({"zone": "x"})))
    assert marks.matches(Expression("zone", "In", ("x",)), rows(ROWS + 39)).tolist() == [True]


@given(first=writes, mine=writes, its=writes, expression=expressions)
@QUICK
def test_a_copy_and_its_original_do_not_disturb_each_other(first, mine, its, expression):
    marks, model = written(first)
    twin, other = marks.copy(), list(model)
    for each, known, steps in ((marks, model, mine), (twin, other, its)):
        for row, host in steps:
            if host is None:
                each.clear(row)
            else:
                each.write(row, host)
            known[row] = host or Host(name="")
    for each, known in ((marks, model), (twin, other)):
        assert each.matches(expression, ALL).tolist() == [expression.matches(host.labels) for host in known]
        assert each.names[:ROWS] == [host.name for host in known]
        assert set(each.present_taints()) == {host.taints for host in known if host.taints}


def test_very_many_label_keys_are_answered_alike_in_any_order():
    marks = Marks()
    marks.fit(2)
    many = 700
    marks.write(0, Host(name="a", labels=labels({f"k{i}": str(i) for i in range(many)})))
    for _ in range(2):
        for number in (*range(many), *range(0, many, 7)):
            expression = Expression(f"k{number}", "In", (str(number),))
            assert marks.matches(expression, rows(0, 1)).tolist() == [True, False]
    marks.write(1, Host(name="b", labels=labels({f"k{i}": str(i) for i in range(0, many, 2)})))
    marks.clear(0)
    for number in range(many):
        assert marks.matches(Expression(f"k{number}"), rows(0, 1)).tolist() == [False, number % 2 == 0]
