"""Roles, scopes and projects: what each may do, in the table of the guide as in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from hostler.control.access.errors import ForbiddenError
from hostler.control.access.principals import Principal
from hostler.control.access.roles import PERMISSIONS, ROLES, check_role, check_scopes, covers
from hostler.errors import InputError, InternalError
from tests.control.access.principals import PATTERNS, make_principal, patterns, principals, projects

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "access.md"
permissions = st.sampled_from(sorted(PERMISSIONS))


def test_the_guide_shows_the_table_of_the_code():
    rows = re.findall(r"^\| `([a-z]+\.[a-z]+)` \| (\w+) \| (\w+) \| (.+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert {name: (role, place, meaning) for name, role, place, meaning in rows} == {
        name: (one.role, one.place, one.meaning) for name, one in PERMISSIONS.items()
    }
    assert [row[0] for row in rows] == list(PERMISSIONS)


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("viewer", "vm.read plan.run event.read host.read metrics.read", "vm.power vm.create host.operate key.read"),
        ("operator", "vm.power host.operate vm.read", "vm.create vm.delete host.admin token.create"),
        (
            "editor",
            "vm.create vm.change vm.delete gang.change reservation.change",
            "quota.change key.create host.admin",
        ),
        ("admin", " ".join(PERMISSIONS), ""),
    ],
)
def test_each_role_may_do_what_the_ones_before_it_may_and_more(role, may, may_not):
    for name in may.split():
        assert make_principal(role).why_not(name) is None, name
    for name in may_not.split():
        assert f"needs the role {PERMISSIONS[name].role}" in str(make_principal(role).why_not(name))


@given(permissions, projects)
def test_a_stronger_role_never_may_less(permission, project):
    allowed = [make_principal(role).why_not(permission, project) is None for role in ROLES]
    assert allowed == sorted(allowed)


def test_a_key_of_a_project_may_do_nothing_elsewhere_nor_in_the_fleet():
    boss = make_principal("admin", "shop")
    assert boss.why_not("vm.create", "shop") is None
    assert boss.why_not("vm.create", "bank") == "this key is for project shop only, not for project bank"
    assert boss.why_not("vm.read") == "this key is for project shop only, not for all projects"
    assert "concerns all projects" in str(boss.why_not("quota.change", "shop"))
    assert "concerns all projects" in str(boss.why_not("host.read", "shop"))
    assert (boss.limit_project(), make_principal().limit_project(), make_principal().limit_project("bank")) == (
        "shop",
        "",
        "bank",
    )


def test_refusal_says_where_the_role_must_be_held():
    """Else the administrator of a project is asked, who may not either."""
    editor = make_principal("editor", "shop")
    assert editor.why_not("quota.change", "shop") == (
        "quota.change needs the role admin in all projects; this key is editor in project shop"
    )
    assert editor.why_not("key.create", "shop") == "key.create needs the role admin; this key is editor in project shop"


def test_scopes_narrow_a_role():
    key = make_principal("admin", scopes=("vm.*", "*.read"))
    assert key.why_not("vm.delete", "shop") is None
    assert key.why_not("host.read") is None
    assert key.why_not("host.admin") == "this key's scopes (vm.*, *.read) leave out host.admin"
    assert make_principal("viewer", scopes=("vm.*",)).why_not("vm.delete", "shop") is not None
    assert make_principal("admin", scopes=()).why_not("vm.read") is not None


def test_a_refusal_is_an_error_with_a_way_out():
    with pytest.raises(ForbiddenError, match="needs the role admin") as caught:
        make_principal("viewer").check("host.admin")
    assert caught.value.hint
    assert (caught.value.code, caught.value.status) == ("forbidden", 403)
    make_principal().check("host.admin")


def test_a_permission_that_nobody_declared_is_a_bug_and_never_a_yes():
    with pytest.raises(InternalError):
        make_principal().why_not("vm.fly")


def test_an_unknown_role_may_do_nothing():
    assert all(make_principal("owner").why_not(name, "shop") is not None for name in PERMISSIONS)


@given(permissions, projects, st.sampled_from((*ROLES, "")))
def test_an_agent_may_do_nothing_but_report_for_its_host(permission, project, role):
    agent = Principal(id="h1", name="node-1", kind="agent", host="h1", role=role)
    assert "an agent may only report for its own host (node-1)" in str(agent.why_not(permission, project))
    assert agent.why_not_grant("viewer", "shop", ("vm.read",)) is not None


@pytest.mark.parametrize("role", ["", "root", "Admin"])
def test_what_is_no_role_is_refused(role):
    with pytest.raises(InputError, match="is not a role"):
        check_role(role)


@pytest.mark.parametrize("scope", ["", "vm", "vm.", "vm.fly", "vm.*.x", "v*.read", "VM.read", "vm.read\n", "**"])
def test_a_scope_that_holds_no_permission_is_refused(scope):
    with pytest.raises(InputError, match="no permission matches"):
        check_scopes(["vm.*", scope])
    with pytest.raises(InputError, match="without scopes"):
        check_scopes([])


def test_a_long_scope_is_not_repeated_at_length():
    with pytest.raises(InputError) as caught:
        check_scopes(["x" * 100_000])
    assert len(caught.value.message) < 200


def test_scopes_are_kept_sorted_and_once():
    assert check_scopes(["vm.*", "*.read", "vm.*"]) == ("*.read", "vm.*")


def test_a_pattern_that_covers_another_allows_all_that_it_allows():
    allowed = {one: {name for name in PERMISSIONS if covers((one,), name)} for one in PATTERNS}
    for outer in PATTERNS:
        for inner in PATTERNS:
            assert not covers((outer,), inner) or allowed[inner] <= allowed[outer], (outer, inner)
    assert covers(("*",), "*.read")
    assert not covers(("vm.*", "*.read"), "*")


@given(principals, st.data())
def test_grantable_permissions_are_permissions_of_the_granter(maker, data):
    made = data.draw(
        st.builds(
            Principal,
            id=st.just("made"),
            role=st.sampled_from(ROLES),
            project=st.one_of(st.just(maker.project), projects),
            scopes=st.lists(st.one_of(st.sampled_from(maker.scopes), patterns), min_size=1, max_size=3).map(tuple),
            until_ns=st.one_of(st.just(maker.until_ns), st.sampled_from((None, 50, 100))),
        )
    )
    is_granted = maker.why_not_grant(made.role, made.project, made.scopes, made.until_ns) is None
    event(f"granted: {is_granted}")
    if not is_granted:
        return
    for permission in PERMISSIONS:
        for project in ("", "shop", "bank"):
            if made.why_not(permission, project) is None:
                assert maker.why_not(permission, project) is None
    assert maker.until_ns is None or (made.until_ns is not None and made.until_ns <= maker.until_ns)


@given(principals)
def test_everybody_may_grant_what_he_is(maker):
    assert maker.why_not_grant(maker.role, maker.project, maker.scopes, maker.until_ns) is None
