"""What people look at, on both databases: who waits and in which order, hosts that take nothing, VMs of projects."""

from __future__ import annotations

from functools import partial

import pytest

from hostler.control.store import Database
from hostler.control.store.errors import InvalidCursorError
from hostler.control.store.rows import hosts, projects, vms
from hostler.control.store.rows.hosts import ClosedRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.store.rows.vms import count_by_project, list_waiting
from hostler.errors import InputError
from tests.control.store.row_makers import host, vm


def put(database: Database, *rows: vms.VmRow) -> None:
    """Write VMs, with their projects."""

    def work(connection) -> None:
        for name in sorted({row.project for row in rows}):
            projects.insert(connection, ProjectRow(name=name))
        vms.insert_many(connection, rows)

    database.submit(work).result(30)


def waiting(name: str, priority: int, created_ns: int, **more) -> vms.VmRow:
    return vm(name, state=more.pop("state", "pending"), priority=priority, created_ns=created_ns, **more)


def names(database: Database, limit: int, project: str = "") -> list[str]:
    """Read all pages."""
    found: list[str] = []
    after = ""
    while True:
        page = database.read_now(partial(list_waiting, project=project, after=after, limit=limit))
        found += [row.name for row in page.items]
        after = page.next
        if not after:
            return found


@pytest.mark.parametrize("limit", [1, 2, 500])
def test_the_important_come_first_then_the_old_and_pages_leave_nobody_out(database, limit):
    put(
        database,
        waiting("late", 5, 9),
        waiting("early", 5, 1),
        waiting("negative", -7, 1),
        waiting("runs", 9, 1, state="running"),
        waiting("gone", 9, 1, deleted_ns=5),
        waiting("twin-a", 0, 3),
        waiting("twin-b", 0, 3),
        waiting("other", 7, 2, project="mail"),
    )
    assert names(database, limit) == ["other", "early", "late", "twin-a", "twin-b", "negative"]
    assert names(database, limit, "shop") == ["early", "late", "twin-a", "twin-b", "negative"]
    assert names(database, limit, "nobody") == []


def test_a_cursor_of_another_list_and_a_page_without_end_are_refused(database):
    put(database, vm("a"), vm("b"))
    other = database.read_now(lambda c: vms.list_page(c, vms.VmFilter(), limit=1)).next
    for cursor in (other, "x", "W10", "é"):
        with pytest.raises(InvalidCursorError):
            database.read_now(lambda c, cursor=cursor: list_waiting(c, after=cursor))
    with pytest.raises(InvalidCursorError) as caught:  # although hosts are listed by the same kind of key
        database.read_now(lambda c: hosts.list_page(c, hosts.HostFilter(), after=other))
    assert "another list" in caught.value.message
    for limit in (0, 501):
        with pytest.raises(InputError):
            database.read_now(lambda c, limit=limit: list_waiting(c, limit=limit))


def test_only_hosts_that_take_nothing_are_closed(database):
    rows = (
        host("well", state="ready", agent="x"),
        host("silent", state="silent", agent="x"),
        host("cordoned", state="ready", is_cordoned=True),
        host("draining", state="ready", is_draining=True),
        host("gone", state="fenced", deleted_ns=1),
    )
    database.submit(lambda c: [hosts.insert(c, row) for row in rows]).result(30)
    assert sorted(database.read_now(hosts.closed)) == [
        ClosedRow("cordoned", "ready", "", True, False),
        ClosedRow("draining", "ready", "", False, True),
        ClosedRow("silent", "silent", "x", False, False),
    ]


def test_vms_are_counted_by_project_without_those_that_are_deleted(database):
    put(database, vm("a"), vm("b"), vm("c", deleted_ns=1), vm("d", project="mail", deleted_ns=1), vm("e", project="x"))
    assert database.read_now(count_by_project) == {"shop": 2, "x": 1}
    assert database.read_now(lambda c: count_by_project(c, "x")) == {"x": 1}
