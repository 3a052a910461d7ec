"""Hosts as rows: names, credentials, lists."""

from __future__ import annotations

import msgspec
import pytest

from hostler.control.store import Database
from hostler.control.store.errors import NameTakenError, NotFoundError, StaleVersionError
from hostler.control.store.rows import hosts
from hostler.control.store.rows.hosts import HostFilter, HostRow
from tests.control.store.row_makers import host


def put(database: Database, *rows: HostRow) -> None:
    database.submit(lambda connection: [hosts.insert(connection, row) for row in rows]).result(30)


def whose(database: Database, hashed: str, now_ns: int = 0) -> str:
    found = database.read_now(lambda connection: hosts.find_by_credential(connection, hashed, now_ns))
    return found.name if found else ""


def test_a_host_is_read_back_as_it_was_written(database):
    row = host(
        "h1", state="ready", is_cordoned=True, is_draining=True, boot="b", agent="a", epoch=7, cpu_millis=64000,
        memory_bytes=2**61, disk_bytes=2**62, generation=3, observed_generation=2, version=5, created_ns=1,
        updated_ns=2, seen_ns=3, body=b"x", labels=(("rack", "r1"),),
    )  # fmt: skip
    put(database, row)
    assert database.read_now(lambda c: hosts.get(c, row.id)) == row
    assert database.read_now(lambda c: hosts.find_by_name(c, "h1")) == row
    assert database.read_now(hosts.all_alive) == [row]
    with pytest.raises(NotFoundError):
        database.read_now(lambda c: hosts.get(c, "nobody"))


def test_a_name_is_unique_among_hosts_that_are_not_deleted(database):
    put(database, host("h1"))
    with pytest.raises(NameTakenError):
        put(database, HostRow(id="other", name="h1"))
    database.submit(lambda c: hosts.save(c, msgspec.structs.replace(host("h1"), deleted_ns=1))).result(30)
    put(database, HostRow(id="other", name="h1"))
    assert [row.id for row in database.read_now(hosts.all_alive)] == ["other"]


def test_saving_what_changed_meanwhile_is_refused(database):
    put(database, host("h1"))
    saved = database.submit(lambda c: hosts.save(c, host("h1", is_cordoned=True, labels=(("a", "b"),)))).result(30)
    assert database.read_now(lambda c: hosts.get(c, saved.id)) == saved
    with pytest.raises(StaleVersionError):
        database.submit(lambda c: hosts.save(c, host("h1"))).result(30)


def test_a_credential_finds_its_host_until_it_is_replaced_or_revoked(database):
    put(database, host("h1"), host("h2"))
    first = database.submit(lambda c: hosts.set_credential(c, host("h1"), "one")).result(30)
    assert (whose(database, "one"), whose(database, "two")) == ("h1", "")
    second = database.submit(lambda c: hosts.set_credential(c, first, "two", old_until_ns=100)).result(30)
    assert (whose(database, "one", 99), whose(database, "one", 100), whose(database, "two", 100)) == ("h1", "", "h1")
    saved = database.submit(lambda c: hosts.save(c, msgspec.structs.replace(second, state="ready"))).result(30)
    assert whose(database, "two") == "h1"
    third = database.submit(lambda c: hosts.set_credential(c, saved, "three")).result(30)
    assert (whose(database, "two"), whose(database, "three")) == ("", "h1")
    database.submit(lambda c: hosts.revoke_credential(c, third)).result(30)
    assert whose(database, "three") == ""


def test_a_deleted_host_has_no_credential(database):
    put(database, host("h1"))
    row = database.submit(lambda c: hosts.set_credential(c, host("h1"), "one")).result(30)
    database.submit(lambda c: hosts.save(c, msgspec.structs.replace(row, deleted_ns=1))).result(30)
    assert whose(database, "one") == ""


def test_lists_can_be_narrowed(database):
    put(
        database,
        host("a", created_ns=1, state="ready", labels=(("rack", "r1"),)),
        host("b", created_ns=2, state="silent", is_cordoned=True, labels=(("rack", "r1"),)),
        host("c", created_ns=3, state="ready", deleted_ns=4),
    )

    def names(**wanted) -> list[str]:
        return [row.name for row in database.read_now(lambda c: hosts.list_page(c, HostFilter(**wanted))).items]

    assert names() == ["a", "b"]
    assert names(with_deleted=True) == ["a", "b", "c"]
    assert names(state="ready") == ["a"]
    assert names(is_cordoned=True) == ["b"]
    assert names(labels=(("rack", "r1"),)) == ["a", "b"]
    assert names(name="b") == ["b"]
    page = database.read_now(lambda c: hosts.list_page(c, HostFilter(), limit=1))
    assert [
        row.name for row in database.read_now(lambda c: hosts.list_page(c, HostFilter(), after=page.next)).items
    ] == ["b"]


def test_a_part_of_a_name_finds_all_hosts_that_have_it(database):
    put(database, host("rack1-a", created_ns=1), host("rack_1", created_ns=2), host("my-Rack1-b", created_ns=3))

    def names(part: str) -> list[str]:
        page = database.read_now(lambda c: hosts.list_page(c, HostFilter(name_part=part)))
        return [row.name for row in page.items]

    assert names("rack1") == ["rack1-a", "my-Rack1-b"]
    assert names("RACK_") == ["rack_1"]
    assert names("%") == []


def test_many_hosts_are_found_at_once_with_their_labels_by_id_and_by_name(database):
    put(database, *[host(f"h{number:04}", labels=(("number", str(number)),)) for number in range(1200)])
    found = database.read_now(hosts.all_alive)
    assert [row.labels[0][1] for row in found] == [str(number) for number in range(1200)]
    ids, names = [row.id for row in found], [row.name for row in found]
    assert sorted(database.read_now(lambda c: hosts.find_some(c, ids))) == ids
    assert sorted(database.read_now(lambda c: hosts.find_by_names(c, names))) == names
