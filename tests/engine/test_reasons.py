"""From the kernel's numbers to reasons and totals."""

from __future__ import annotations

import math
import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hostler.engine.cache.reasons import reason_counts, shape_reason, split_counts
from hostler.engine.cache.totals import float_totals
from hostler.engine.cluster.shapes import Shape, ShapeTable
from hostler.engine.cluster.tables import Tables
from hostler.model import Expression, GuestSpec, Reason, Term, labels
from tests.engine.fleet import QUICK


def sortable(value: float) -> int:
    """Return an integer that sorts like a float: the bits, those below the sign turned over where it is negative."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return bits if bits >= 0 else bits ^ 0x7FFFFFFFFFFFFFFF


floats = st.floats(allow_nan=False)


@given(values=st.lists(floats, min_size=1))
@QUICK
def test_floats_come_back_from_integers_that_sort_like_them(values):
    whole = np.array([sortable(value) for value in values], dtype=np.int64)
    found = float_totals(whole)
    assert found == values
    assert [math.copysign(1.0, value) for value in found] == [math.copysign(1.0, value) for value in values]
    order = np.argsort(whole, kind="stable")
    assert sorted(values) == [values[at] for at in order]


@given(rows=st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=6))
@QUICK
def test_counts_are_split_into_feasible_hosts_and_refusals_by_code(rows):
    found = split_counts(np.array(rows, dtype=np.int32))
    assert [feasible for feasible, _ in found] == [row[0] for row in rows]
    assert [dict(refused) for _, refused in found] == [{c: n for c, n in enumerate(row) if c and n} for row in rows]


def shape_of(spec: GuestSpec) -> Shape:
    shapes = ShapeTable(Tables())
    return shapes.shapes[shapes.number(spec)]


def test_reasons_are_told_by_hosts_then_by_their_words():
    tables = Tables()
    cpu, memory = tables.insufficient(1), tables.insufficient(2)
    cordoned = tables.reasons.number(Reason("cordon", "cordoned"))
    found = reason_counts(tuple((tables.reasons.values[code], n) for code, n in ((memory, 2), (cordoned, 2), (cpu, 5))))
    assert [(c.hosts, c.reason.text()) for c in found] == [
        (5, "insufficient: cpu"), (2, "cordoned"), (2, "insufficient: memory"),
    ]  # fmt: skip


def test_a_mismatch_is_shown_in_the_words_of_the_guest():
    tables = Tables()
    second = tables.reasons.number(Reason("host_affinity", "selector_mismatch", "1"))
    terms = tables.reasons.number(Reason("host_affinity", "affinity_mismatch"))
    wanted = GuestSpec(
        host_selector=labels({"disk": "ssd", "zone": "x"}),
        host_affinity=(Term((Expression("size", "Gt", ("7",)),)), Term((Expression("gpu"),))),
    )
    assert shape_reason(tables.reasons, second, shape_of(wanted)).text() == "selector mismatch: zone=x"
    assert shape_reason(tables.reasons, terms, shape_of(wanted)).text() == "affinity mismatch: size > 7 or gpu Exists"


def test_a_very_long_affinity_is_shown_in_short():
    tables = Tables()
    code = tables.reasons.number(Reason("host_affinity", "affinity_mismatch"))
    wanted = GuestSpec(host_affinity=(Term((Expression("zone", "In", tuple(f"zone-{i}" for i in range(500))),)),))
    text = shape_reason(tables.reasons, code, shape_of(wanted)).subject
    assert text.startswith("zone In (zone-0, zone-1")
    assert text.endswith("…")
    assert len(text) < 300
