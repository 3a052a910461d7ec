"""Lists that people read from their end: the newest entries of the log, the newest operations."""

from __future__ import annotations

from hostler.control.store import Database
from hostler.control.store.history import log
from hostler.control.store.history.log import NewEntry
from hostler.control.store.rows import operations
from hostler.control.store.rows.operations import OperationFilter, OperationRow


def test_the_log_is_read_backwards_as_far_as_it_goes(database: Database) -> None:
    entries = [
        NewEntry(at_ns=n, kind="note" if n % 2 else "fact", body=b"{}", project="shop", subject=f"s{n % 3}")
        for n in range(1, 10)
    ]
    database.submit(lambda connection: log.append(connection, entries)).result(30)

    def seqs(before: int, limit: int = 100, **rest) -> list[int]:
        return [one.seq for one in database.read_now(lambda c: log.read_before(c, before, limit, **rest))]

    assert seqs(100) == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert seqs(8, 3) == [7, 6, 5]
    assert seqs(100, kinds=("note",)) == [9, 7, 5, 3, 1]
    assert seqs(100, subject="s0", project="shop") == [9, 6, 3]
    assert seqs(100, without_subject="s0") == [8, 7, 5, 4, 2, 1]
    assert seqs(100, project="other") == []


def test_operations_are_listed_backwards_without_gaps(database):
    for n in range(7):
        row = OperationRow(id=f"o{n}", kind="vm.create", created_ns=n // 3)
        database.submit(lambda c, row=row: operations.add_many(c, [row])).result(30)
    found: list[str] = []
    cursor = ""
    while True:
        page = database.read_now(
            lambda c, at=cursor: operations.list_page(c, OperationFilter(), after=at, limit=2, is_backwards=True)
        )
        found += [row.id for row in page.items]
        cursor = page.next
        if not cursor:
            break
    assert found == [f"o{n}" for n in reversed(range(7))]
