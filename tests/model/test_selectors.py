"""Label expressions, terms, taints and tolerations by the rules of Kubernetes."""

from __future__ import annotations

import pytest

from hostler.model import Expression, Taint, Term, Toleration

LABELS = (("cores", "8"), ("zone", "a"))


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        pytest.param(Expression("zone", "In", ("a", "b")), True, id="in"),
        pytest.param(Expression("zone", "In", ("b",)), False, id="not-among"),
        pytest.param(Expression("rack", "In", ("a",)), False, id="in-needs-the-label"),
        pytest.param(Expression("zone", "NotIn", ("a",)), False, id="notin-refuses"),
        pytest.param(Expression("zone", "NotIn", ("b",)), True, id="notin-another-value"),
        pytest.param(Expression("rack", "NotIn", ("a",)), True, id="notin-holds-without-the-label"),
        pytest.param(Expression("zone", "Exists"), True, id="exists"),
        pytest.param(Expression("rack", "Exists"), False, id="does-not-exist"),
        pytest.param(Expression("rack", "DoesNotExist"), True, id="absent"),
        pytest.param(Expression("zone", "DoesNotExist"), False, id="present"),
        pytest.param(Expression("cores", "Gt", ("7",)), True, id="greater"),
        pytest.param(Expression("cores", "Gt", ("8",)), False, id="equal-is-not-greater"),
        pytest.param(Expression("cores", "Gt", ("10",)), False, id="compares-numbers-not-text"),
        pytest.param(Expression("cores", "Lt", ("10",)), True, id="less"),
        pytest.param(Expression("zone", "Gt", ("0",)), False, id="label-is-no-integer"),
        pytest.param(Expression("zone", "Lt", ("0",)), False, id="label-is-no-integer-either-way"),
        pytest.param(Expression("cores", "Gt", ("x",)), False, id="value-is-no-integer"),
        pytest.param(Expression("cores", "Lt", ()), False, id="no-value"),
        pytest.param(Expression("rack", "Gt", ("0",)), False, id="gt-needs-the-label"),
    ],
)
def test_expression_holds_or_not(expression, holds):
    assert expression.matches(LABELS) is holds


@pytest.mark.parametrize(
    ("term", "holds"),
    [
        pytest.param(Term(), False, id="no-requirement-matches-nothing"),
        pytest.param(Term((Expression("zone"),)), True, id="one-label"),
        pytest.param(Term((Expression("zone"), Expression("rack"))), False, id="all-must-hold"),
        pytest.param(Term((), (Expression("metadata.name", "In", ("h1",)),)), True, id="own-name"),
        pytest.param(Term((), (Expression("metadata.name", "NotIn", ("h1",)),)), False, id="any-but-own-name"),
        pytest.param(
            Term((Expression("zone"),), (Expression("metadata.name", "In", ("h2",)),)),
            False,
            id="name-and-label",
        ),
    ],
)
def test_term_needs_all_its_requirements(term, holds):
    assert term.matches("h1", LABELS) is holds


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(Toleration("gpu", "Equal", "yes"), True, id="equal"),
        pytest.param(Toleration("gpu", "Equal", "no"), False, id="another-value"),
        pytest.param(Toleration("gpu", "Exists"), True, id="key-exists"),
        pytest.param(Toleration("ssd", "Exists"), False, id="another-key"),
        pytest.param(Toleration("", "Exists"), True, id="everything"),
        pytest.param(Toleration("", "Equal", "yes"), False, id="equal-needs-a-key"),
        pytest.param(Toleration("gpu", "Exists", "", "NoSchedule"), True, id="same-effect"),
        pytest.param(Toleration("gpu", "Exists", "", "NoExecute"), False, id="another-effect"),
        pytest.param(Toleration(), False, id="default-tolerates-nothing"),
    ],
)
def test_toleration_covers_a_taint_or_not(toleration, tolerated):
    assert toleration.tolerates(Taint("gpu", "yes", "NoSchedule")) is tolerated


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        pytest.param(Expression("zone", "In", ("a",)), "zone=a", id="one-value"),
        pytest.param(Expression("zone", "NotIn", ("a", "b")), "zone NotIn (a, b)", id="values"),
        pytest.param(Expression("zone"), "zone Exists", id="exists"),
        pytest.param(Expression("cores", "Gt", ("8",)), "cores > 8", id="greater"),
        pytest.param(Expression("cores", "Lt", ("8",)), "cores < 8", id="less"),
        pytest.param(Term((Expression("a"), Expression("b"))), "a Exists and b Exists", id="term"),
        pytest.param(Term(), "nothing", id="empty-term"),
        pytest.param(Taint("gpu", "yes"), "gpu=yes:NoSchedule", id="taint"),
        pytest.param(Taint("gpu", "", "NoExecute"), "gpu:NoExecute", id="taint-without-value"),
    ],
)
def test_constraint_reads_as_one_line(thing, text):
    assert thing.text() == text
