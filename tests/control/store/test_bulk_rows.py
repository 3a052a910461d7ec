"""Many rows in one statement: what goes in comes out, on both databases."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from hostler.control.store.rows.bulk import BulkUpdate, insert_all, is_among, keys
from hostler.control.store.tables import operations

_LARGEST = 2**63 - 1
_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_numbers = st.integers(-_LARGEST - 1, _LARGEST)
_bodies = st.binary(max_size=200)
_TOUCHED = BulkUpdate(
    operations,
    ("id", "version", "body", "finished_ns"),
    where=lambda one: (operations.c.id == one["id"], operations.c.version == one["version"]),
    values=lambda one: {"body": one["body"], "finished_ns": one["finished_ns"], "version": one["version"] + 1},
)


@pytest.fixture
def write(database):
    return lambda work: database.submit(work).result(60)


@pytest.fixture
def stored(database):
    """Give what reads all rows."""
    query = select(operations).order_by(operations.c.id)
    return lambda: database.read_now(lambda c: [dict(one) for one in c.execute(query).mappings()])


def row(identity: str, **values: object) -> dict[str, object]:
    """Return a row of the operations with nothing special about it."""
    plain = dict.fromkeys(("kind", "project", "subject", "actor", "state"), "x")
    numbers = dict.fromkeys(("generation", "version", "created_ns", "updated_ns"), 1)
    return {"id": identity, **plain, **numbers, "finished_ns": None, "body": b"{}"} | values


@given(
    written=st.lists(
        st.fixed_dictionaries(
            {"subject": _texts, "actor": _texts, "created_ns": _numbers, "finished_ns": _numbers | st.none(),
             "body": _bodies}
        ),
        max_size=5,
    )
)  # fmt: skip
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_goes_in_comes_out(write, stored, written):
    expected = [row(f"{number:03}", **values) for number, values in enumerate(written)]
    write(lambda c: insert_all(c, operations, expected))
    try:
        assert stored() == expected
    finally:
        write(lambda c: c.execute(delete(operations)) and None)


def test_what_looks_like_code_is_only_text(write, stored):
    hostile = ["'; DROP TABLE vms; --", "\\x41", '"]}', "\\u0041", "%s $1 :rows", "\u202e", "😀"]
    expected = [row(f"{number:03}", subject=text, body=text.encode()) for number, text in enumerate(hostile)]
    write(lambda c: insert_all(c, operations, expected))
    assert stored() == expected


def test_each_row_gets_its_own_change(write, stored):
    write(lambda c: insert_all(c, operations, [row(name) for name in "abc"]))
    changes = [
        {"id": "a", "version": 1, "body": b"\x00\xff", "finished_ns": 7},
        {"id": "c", "version": 1, "body": b"", "finished_ns": None},
    ]
    assert write(lambda c: _TOUCHED.run(c, changes)) == 2
    touched = {one["id"]: (one["body"], one["finished_ns"], one["version"]) for one in stored()}
    assert touched == {"a": (b"\x00\xff", 7, 2), "b": (b"{}", None, 1), "c": (b"", None, 2)}


def test_rows_changed_since_read_are_left_alone_and_not_counted(write, stored):
    write(lambda c: insert_all(c, operations, [row("a"), row("b", version=2)]))
    changes = [{"id": name, "version": 1, "body": b"new", "finished_ns": 1} for name in "abz"]
    assert write(lambda c: _TOUCHED.run(c, changes)) == 1
    assert [one["body"] for one in stored()] == [b"new", b"{}"]


def test_nothing_to_write_asks_nobody(write, stored):
    assert write(lambda c: _TOUCHED.run(c, [])) == 0
    write(lambda c: insert_all(c, operations, []))
    assert stored() == []


@pytest.mark.parametrize("wanted", [[], ["a"], ["c", "a", "a", "nobody"], [f"{n}" for n in range(2000)] + ["b"]])
def test_rows_are_found_by_however_many_keys(write, database, wanted):
    write(lambda c: insert_all(c, operations, [row(name) for name in "abc"]))
    query = select(operations.c.id).where(is_among(operations.c.id)).order_by(operations.c.id)
    found = database.read_now(lambda c: list(c.execute(query, keys(wanted)).scalars()))
    assert found == sorted(set(wanted) & set("abc"))


def test_keys_that_look_like_code_are_only_text(write, database):
    hostile = ["'); DROP TABLE vms; --", '"]', "\\", "é"]
    write(lambda c: insert_all(c, operations, [row(name) for name in hostile]))
    query = select(operations.c.id).where(is_among(operations.c.id))
    assert set(database.read_now(lambda c: c.execute(query, keys(hostile)).scalars().all())) == set(hostile)
