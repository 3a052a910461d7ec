"""Projects, keys, tokens, operations, idempotency keys and documents as rows."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.store.errors import (
    IdempotencyMismatchError,
    NameTakenError,
    NotFoundError,
    StaleVersionError,
    StillUsedError,
)  # fmt: skip
from hostler.control.store.rows import documents, idempotency, keys, operations, projects, vms
from hostler.control.store.rows.documents import DocumentRow
from hostler.control.store.rows.idempotency import RecordedAnswer
from hostler.control.store.rows.keys import ApiKeyRow, JoinTokenRow
from hostler.control.store.rows.operations import OperationFilter, OperationRow
from hostler.control.store.rows.projects import ProjectRow
from tests.control.store.row_makers import insert_vms, vm


@pytest.fixture
def write(database):
    return lambda work: database.submit(work).result(30)


def test_a_project_is_written_changed_and_listed_by_name(database, write):
    for name in ("b", "a", "c"):
        write(lambda c, name=name: projects.insert(c, ProjectRow(name=name, body=b"x")))
    with pytest.raises(NameTakenError):
        write(lambda c: projects.insert(c, ProjectRow(name="a")))
    saved = write(lambda c: projects.save(c, ProjectRow(name="a", body=b"new", updated_ns=3)))
    assert database.read_now(lambda c: projects.get(c, "a")) == saved
    with pytest.raises(StaleVersionError):
        write(lambda c: projects.save(c, ProjectRow(name="a")))
    with pytest.raises(NotFoundError):
        database.read_now(lambda c: projects.get(c, "z"))
    assert [row.name for row in database.read_now(lambda c: projects.list_after(c, limit=2))] == ["a", "b"]
    assert [row.name for row in database.read_now(lambda c: projects.list_after(c, "b"))] == ["c"]


def test_project_without_vms_is_deleted_with_its_documents(database, write):
    write(lambda c: projects.insert(c, ProjectRow(name="shop")))
    write(lambda c: insert_vms(c, vm("web")))
    write(lambda c: documents.insert(c, "quota", DocumentRow(project="shop", name="all")))
    write(lambda c: documents.insert(c, "quota", DocumentRow(project="bank", name="all")))
    with pytest.raises(StillUsedError) as caught:
        write(lambda c: projects.drop(c, ProjectRow(name="shop")))
    assert "web" in caught.value.message
    write(lambda c: vms.save_many(c, [vm("web", deleted_ns=1)]))
    with pytest.raises(StaleVersionError):
        write(lambda c: projects.drop(c, ProjectRow(name="shop", version=9)))
    write(lambda c: projects.drop(c, ProjectRow(name="shop")))
    assert database.read_now(lambda c: projects.find(c, "shop")) is None
    assert [row.project for row in database.read_now(lambda c: documents.list_all(c, "quota"))] == ["bank"]


def test_a_key_is_found_by_its_hash_and_stays_as_a_row_when_it_is_revoked(database, write):
    row = ApiKeyRow(id="k1", hash="h1", name="ci", project="shop", role="editor", created_ns=1, expires_ns=100)
    write(lambda c: keys.insert_key(c, row))
    with pytest.raises(NameTakenError):
        write(lambda c: keys.insert_key(c, msgspec.structs.replace(row, id="k2")))
    assert database.read_now(lambda c: keys.find_key_by_hash(c, "h1")) == row
    assert database.read_now(lambda c: keys.find_key_by_hash(c, "h2")) is None
    write(lambda c: keys.note_use(c, "k1", 50))
    write(lambda c: keys.note_use(c, "k1", 40))
    assert database.read_now(lambda c: keys.find_key(c, "k1")).used_ns == 50
    revoked = write(lambda c: keys.revoke_key(c, row, 60))
    found = database.read_now(lambda c: keys.find_key(c, "k1"))
    assert (found.revoked_ns, found.version) == (60, revoked.version)
    with pytest.raises(StaleVersionError):
        write(lambda c: keys.revoke_key(c, row, 70))


def test_keys_are_counted_and_listed(database, write):
    assert database.read_now(keys.count_keys) == 0
    for number in range(3):
        row = ApiKeyRow(id=f"k{number}", hash=f"h{number}", created_ns=number, project="shop" if number else "")
        write(lambda c, row=row: keys.insert_key(c, row))
    assert database.read_now(keys.count_keys) == 3
    page = database.read_now(lambda c: keys.list_keys(c, limit=2))
    assert [row.id for row in page.items] == ["k0", "k1"]
    assert [row.id for row in database.read_now(lambda c: keys.list_keys(c, after=page.next)).items] == ["k2"]
    assert [row.id for row in database.read_now(lambda c: keys.list_keys(c, project="shop")).items] == ["k1", "k2"]


def test_a_join_token_works_once_in_time_and_for_its_host(database, write):
    def use(hashed: str, now_ns: int = 50, host_name: str = "h1") -> JoinTokenRow | None:
        return write(lambda c: keys.use_token(c, hashed, host_name=host_name, used_by="id-1", now_ns=now_ns))

    for name, rest in {"any": {}, "named": {"host_name": "h2"}, "gone": {}}.items():
        row = JoinTokenRow(id=name, hash=f"hash-{name}", expires_ns=100, **rest)
        write(lambda c, row=row: keys.insert_token(c, row))
    write(lambda c: keys.revoke_token(c, keys.find_token(c, "gone"), 10))
    assert use("unknown") is None
    assert use("hash-any", now_ns=100) is None
    assert use("hash-gone") is None
    assert use("hash-named", host_name="h1") is None
    assert use("hash-named", host_name="h2").used_by == "id-1"
    assert use("hash-any").used_ns == 50
    assert use("hash-any") is None
    assert [row.id for row in database.read_now(keys.list_tokens).items] == ["any", "gone", "named"]


def test_of_many_who_use_a_token_at_once_one_joins(database, write):
    write(lambda c: keys.insert_token(c, JoinTokenRow(id="t", hash="h", expires_ns=100)))
    futures = [
        database.submit(lambda c, n=n: keys.use_token(c, "h", host_name="x", used_by=str(n), now_ns=1))
        for n in range(8)
    ]
    assert [future.result(30) is not None for future in futures].count(True) == 1


def test_operations_are_saved_listed_and_forgotten_when_they_are_over(database, write):
    rows = [
        OperationRow(id=f"o{n}", kind="create", project="shop", subject=f"vm{n % 2}", created_ns=n) for n in range(4)
    ]
    write(lambda c: operations.add_many(c, rows))
    done = msgspec.structs.replace(rows[0], state="done", finished_ns=10)
    assert write(lambda c: operations.save(c, done)).version == 2
    with pytest.raises(StaleVersionError):
        write(lambda c: operations.save(c, done))
    with pytest.raises(StillUsedError):
        write(lambda c: operations.add_many(c, rows[:1]))

    def ids(**wanted) -> list[str]:
        page = database.read_now(lambda c: operations.list_page(c, OperationFilter(**wanted)))
        return [row.id for row in page.items]

    assert ids() == ["o0", "o1", "o2", "o3"]
    assert ids(subject="vm0", state="pending") == ["o2"]
    assert ids(state="done") == ["o0"]
    assert ids(subject="vm1", project="shop", kind="create") == ["o1", "o3"]
    assert write(lambda c: operations.forget_finished(c, 10)) == 0
    assert write(lambda c: operations.forget_finished(c, 11)) == 1
    assert ids() == ["o1", "o2", "o3"]
    with pytest.raises(NotFoundError):
        database.read_now(lambda c: operations.get(c, "o0"))


def test_an_answer_is_given_again_until_its_time_is_over(database, write):
    answer = RecordedAnswer(status=202, response=b"made")

    def recall(request_hash: str, now_ns: int) -> RecordedAnswer | None:
        return database.read_now(lambda c: idempotency.recall(c, "me", "key", request_hash, now_ns))

    def remember(now_ns: int) -> None:
        write(lambda c: idempotency.remember(c, "me", "key", "r1", answer, now_ns=now_ns, expires_ns=now_ns + 100))

    assert recall("r1", 0) is None
    remember(0)
    assert recall("r1", 99) == answer
    with pytest.raises(IdempotencyMismatchError):
        recall("r2", 99)
    with pytest.raises(IdempotencyMismatchError):
        remember(99)
    assert database.read_now(lambda c: idempotency.recall(c, "you", "key", "r2", 0)) is None
    assert recall("r2", 100) is None
    remember(100)
    assert write(lambda c: idempotency.forget_expired(c, 199)) == 0
    assert write(lambda c: idempotency.forget_expired(c, 200)) == 1


@pytest.mark.parametrize("kind", ["quota", "reservation", "gang", "setting"])
def test_documents_of_each_kind_are_kept_apart(database, write, kind):
    row = write(lambda c: documents.insert(c, kind, DocumentRow(project="shop", name="a", body=b"1")))
    with pytest.raises(NameTakenError):
        write(lambda c: documents.insert(c, kind, row))
    write(lambda c: documents.insert(c, kind, DocumentRow(project="bank", name="a")))
    saved = write(lambda c: documents.save(c, kind, msgspec.structs.replace(row, body=b"2")))
    assert database.read_now(lambda c: documents.get(c, kind, "shop", "a")) == saved
    assert [one.project for one in database.read_now(lambda c: documents.list_all(c, kind))] == ["bank", "shop"]
    assert database.read_now(lambda c: documents.list_all(c, kind, "shop")) == [saved]
    for other in {"quota", "reservation", "gang", "setting"} - {kind}:
        assert database.read_now(lambda c, other=other: documents.list_all(c, other)) == []
    with pytest.raises(StaleVersionError):
        write(lambda c: documents.drop(c, kind, row))
    write(lambda c: documents.drop(c, kind, saved))
    with pytest.raises(NotFoundError):
        database.read_now(lambda c: documents.get(c, kind, "shop", "a"))
