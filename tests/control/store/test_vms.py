"""VMs as rows: names, versions, lists."""

from __future__ import annotations

import threading
from functools import partial

import msgspec
import pytest

from hostler.control.store import Database, open_database
from hostler.control.store.errors import InvalidCursorError, NameTakenError, NotFoundError, StillUsedError
from hostler.control.store.rows import hosts, placements, projects, vms
from hostler.control.store.rows.placements import PlacementRow
from hostler.control.store.rows.projects import ProjectRow
from hostler.control.store.rows.versioned_rows import MOST_IN_A_PAGE
from hostler.control.store.rows.vms import VmFilter, VmRow
from hostler.errors import InputError
from tests.control.databases import PATIENT
from tests.control.store.row_makers import host, insert_vms, vm


@pytest.fixture
def shop(database: Database) -> Database:
    """Give a database with two projects."""
    for row in (ProjectRow(name="shop"), ProjectRow(name="bank")):
        database.submit(partial(projects.insert, row=row)).result(30)
    return database


def put(database: Database, *rows: VmRow) -> None:
    database.submit(lambda connection: insert_vms(connection, *rows)).result(30)


def save(database: Database, *rows: VmRow) -> int:
    return database.submit(lambda connection: vms.save_many(connection, rows)).result(30)


def names(database: Database, **wanted) -> list[str]:
    page = database.read_now(lambda connection: vms.list_page(connection, VmFilter(**wanted)))
    assert database.read_now(lambda connection: vms.count(connection, VmFilter(**wanted))) == len(page.items)
    return [row.name for row in page.items]


def test_a_vm_is_read_back_as_it_was_written(shop):
    row = vm(
        "web", state="running", host="h", gang="g", priority=-3, is_protected=True, cpu_millis=1500, memory_bytes=2**61,
        disk_bytes=2**62, generation=4, observed_generation=3, restarts=2, version=7, created_ns=2**62,
        updated_ns=2**62, status=b"\x00\xff", labels=(("app", "web"), ("tier", "")),
    )  # fmt: skip
    put(shop, row)
    assert shop.read_now(lambda c: vms.find(c, row.id)) == row
    assert shop.read_now(lambda c: vms.find_by_name(c, "shop", "web")) == row
    assert shop.read_now(lambda c: vms.find_by_name(c, "bank", "web")) is None
    assert shop.read_now(lambda c: vms.find(c, "nobody")) is None


def test_a_name_is_unique_among_the_vms_of_a_project_that_are_not_deleted(shop):
    first = vm("web")
    put(shop, first, vm("web", project="bank"))
    with pytest.raises(NameTakenError) as caught:
        put(shop, vm("web", number=2))
    assert "web" in caught.value.message
    save(shop, msgspec.structs.replace(first, deleted_ns=5))
    put(shop, vm("web", number=2))
    assert shop.read_now(lambda c: vms.find_by_name(c, "shop", "web")).id == vm("web", number=2).id


def test_a_deleted_vm_does_not_come_back_beside_another_of_its_name(shop):
    put(shop, vm("web", deleted_ns=5))
    put(shop, vm("web", number=2))
    with pytest.raises(StillUsedError):
        save(shop, vm("web"))
    assert shop.read_now(lambda c: vms.find_by_name(c, "shop", "web")).id == vm("web", number=2).id


def test_a_vm_keeps_its_project_and_its_name_for_life(shop):
    put(shop, vm("a"))
    assert save(shop, msgspec.structs.replace(vm("a"), name="b", project="bank", power="stopped")) == 1
    assert shop.read_now(lambda c: vms.find_by_name(c, "shop", "a")).power == "stopped"
    assert names(shop) == ["a"]


def test_of_many_who_want_a_name_at_once_one_gets_it(postgres_url):
    replicas = [open_database(postgres_url, limits=PATIENT) for _ in range(3)]
    replicas[0].submit(lambda c: projects.insert(c, ProjectRow(name="shop"))).result(30)
    barrier = threading.Barrier(3)
    outcomes: list[BaseException | None] = []

    def run(number: int) -> None:
        barrier.wait()
        for turn in range(10):
            try:
                put(replicas[number], vm(f"web{turn}", number=number))
                outcomes.append(None)
            except NameTakenError as error:
                outcomes.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NameTakenError"] * 20 + ["NoneType"] * 10
    assert len(names(replicas[0])) == 10
    for replica in replicas:
        replica.close()


def test_a_vm_needs_its_project(shop):
    with pytest.raises(NotFoundError):
        put(shop, vm("web", project="nowhere"))


def test_all_but_names_and_labels_is_saved(shop):
    row = vm("web", labels=(("app", "web"),))
    put(shop, row)
    changed = msgspec.structs.replace(
        row, power="stopped", state="running", host="h", gang="g", priority=4, is_protected=True, cpu_millis=1,
        memory_bytes=2, disk_bytes=3, generation=5, observed_generation=6, restarts=7, updated_ns=8,
        status=b"well",
    )  # fmt: skip
    assert save(shop, changed) == 1
    assert shop.read_now(lambda c: vms.find(c, row.id)) == msgspec.structs.replace(changed, version=2)


def test_what_changed_meanwhile_and_what_is_not_there_is_not_saved(shop):
    row = vm("web")
    put(shop, row, vm("db"))
    assert save(shop, msgspec.structs.replace(row, power="stopped")) == 1
    assert save(shop, msgspec.structs.replace(row, power="paused"), vm("db"), vm("nobody")) == 1
    found = shop.read_now(lambda c: vms.find_many(c, [row.id, vm("db").id]))
    assert {one.name: (one.power, one.version) for one in found} == {"web": ("stopped", 2), "db": ("running", 2)}
    assert save(shop) == 0


def test_of_two_who_save_the_same_version_one_wins(shop):
    put(shop, vm("web"))
    futures = [shop.submit(lambda c: vms.save_many(c, [vm("web")])) for _ in range(2)]
    assert sorted(future.result(30) for future in futures) == [0, 1]


def test_labels_are_replaced_as_a_whole(shop):
    row = vm("web", labels=(("a", "1"), ("b", "2")))
    put(shop, row)
    for new in ((("b", "3"),), ()):
        shop.submit(partial(vms.set_labels, identity=row.id, labels=new)).result(30)
        assert shop.read_now(lambda c: vms.find(c, row.id)).labels == new


def test_lists_can_be_narrowed_by_anything_that_is_a_column_and_by_labels(shop):
    put(
        shop,
        vm("a", state="running", host="h1", created_ns=1, labels=(("app", "web"), ("tier", "front"))),
        vm("b", state="stopped", host="h1", created_ns=2, labels=(("app", "web"),)),
        vm("c", state="running", created_ns=3, gang="g", labels=(("app", "db"),)),
        vm("d", project="bank", state="running", host="h2", created_ns=4),
        vm("e", created_ns=5, deleted_ns=6, labels=(("app", "web"),)),
    )
    assert names(shop) == ["a", "b", "c", "d"]
    assert names(shop, with_deleted=True) == ["a", "b", "c", "d", "e"]
    assert names(shop, project="shop") == ["a", "b", "c"]
    assert names(shop, projects=("bank",)) == ["d"]
    assert names(shop, projects=()) == []
    assert names(shop, host="h1") == ["a", "b"]
    assert names(shop, host="") == ["c"]
    assert names(shop, state="running", project="shop") == ["a", "c"]
    assert names(shop, gang="g") == ["c"]
    assert names(shop, name="b") == ["b"]
    assert names(shop, labels=(("app", "web"),)) == ["a", "b"]
    assert names(shop, labels=(("app", "web"), ("tier", "front"))) == ["a"]
    assert names(shop, labels=(("app", "front"),)) == []


def test_a_part_of_a_name_finds_all_that_have_it_and_means_nothing_else(shop):
    put(shop, *[vm(name, created_ns=at) for at, name in enumerate(("web-1", "web_1", "my.Web-1.x", "db%1", "a/b"))])
    assert names(shop, name_part="web") == ["web-1", "web_1", "my.Web-1.x"]
    assert names(shop, name_part="WEB-") == ["web-1", "my.Web-1.x"]
    assert names(shop, name_part="b_1") == ["web_1"]  # no sign stands for others
    assert names(shop, name_part="%") == ["db%1"]
    assert names(shop, name_part="/") == ["a/b"]
    assert names(shop, name_part="\\") == []
    assert names(shop, name_part="") == names(shop)
    assert names(shop, name="web", name_part="web") == []


def test_pages_neither_repeat_nor_hide_rows_when_others_come_and_go(shop):
    put(shop, *[vm(f"old{number:02}", created_ns=100 + number // 4) for number in range(20)])
    seen: list[str] = []
    cursor, turn = "", 0
    while True:
        page = shop.read_now(lambda c, at=cursor: vms.list_page(c, VmFilter(), after=at, limit=3))
        seen += [row.name for row in page.items]
        if not page.next:
            break
        cursor, turn = page.next, turn + 1
        # One that sorts before all, one after all, and one that was seen already goes.
        put(shop, vm(f"early{turn}", created_ns=turn), vm(f"late{turn:02}", created_ns=1000 + turn))
        gone = shop.read_now(lambda c, name=page.items[0].name: vms.find_by_name(c, "shop", name))
        save(shop, msgspec.structs.replace(gone, deleted_ns=1))
    assert [name for name in seen if name.startswith("old")] == [f"old{number:02}" for number in range(20)]
    assert len(seen) == len(set(seen))


def test_the_last_page_says_so_even_if_it_is_full(shop):
    put(shop, vm("a", created_ns=1), vm("b", created_ns=2))
    assert shop.read_now(lambda c: vms.list_page(c, VmFilter(), limit=2)).next == ""
    page = shop.read_now(lambda c: vms.list_page(c, VmFilter(), limit=1))
    assert page.next
    assert shop.read_now(lambda c: vms.list_page(c, VmFilter(), limit=1, after=page.next)).next == ""


@pytest.mark.parametrize("cursor", ["x", "????", "W10", "WyJhIiwxXQ", "é", "WzFlOTksImEiXQ", "A" * 5000])
def test_a_cursor_that_is_not_ours_is_refused(shop, cursor):
    with pytest.raises(InvalidCursorError):
        shop.read_now(lambda c: vms.list_page(c, VmFilter(), after=cursor))


@pytest.mark.parametrize("limit", [0, -1, MOST_IN_A_PAGE + 1])
def test_a_page_has_a_maximum(shop, limit):
    with pytest.raises(InputError):
        shop.read_now(lambda c: vms.list_page(c, VmFilter(), limit=limit))


def test_of_more_than_a_statement_can_name_none_is_left_out(shop):
    many = [vm(f"web{number}") for number in range(1001)]
    put(shop, *many)
    found = shop.read_now(lambda c: vms.find_many(c, [row.id for row in many]))
    assert {row.id for row in found} == {row.id for row in many}
    again = [vm(f"web{number}", number=1) for number in range(1001)]
    outcomes = shop.submit(lambda c: vms.insert_many(c, again)).result(30)
    assert {type(outcome) for outcome in outcomes} == {NameTakenError}


def test_deleted_vms_are_forgotten_after_a_while_oldest_first(shop):
    put(shop, vm("a", deleted_ns=10, labels=(("x", "y"),)), vm("b", deleted_ns=20), vm("c", deleted_ns=30), vm("d"))
    assert shop.submit(lambda c: vms.forget_deleted(c, 30, limit=1)).result(30) == 1
    assert names(shop, with_deleted=True) == ["b", "c", "d"]
    assert shop.submit(lambda c: vms.forget_deleted(c, 30)).result(30) == 1
    assert names(shop, with_deleted=True) == ["c", "d"]


def test_room_is_kept_at_both_ends_of_a_move_and_given_back_with_the_vm(shop):
    size = {"cpu_millis": 1000, "memory_bytes": 2**61, "disk_bytes": 5}
    a, b = vm("a").id, vm("b").id
    landing = PlacementRow(vm=a, host="id-of-h2", role="landing", **size)

    def move(connection) -> None:
        for name in ("h1", "h2"):
            hosts.insert(connection, host(name))
        insert_vms(connection, vm("a"), vm("b"))
        homes = [PlacementRow(vm=a, host="id-of-h1", **size), PlacementRow(vm=b, host="id-of-h2", **size)]
        placements.insert_many(connection, [*homes, landing])

    def arrive(connection) -> None:
        placements.drop_many(connection, [(a, "home"), (a, "landing")])
        placements.insert_many(connection, [msgspec.structs.replace(landing, role="home")])

    def kept() -> list[tuple[str, str, str]]:
        return [(row.vm, row.role, row.host) for row in shop.read_now(placements.all_rows)]

    shop.submit(move).result(30)
    use = shop.read_now(placements.use_by_host)
    assert (use["id-of-h2"].vms, use["id-of-h2"].memory_bytes, use["id-of-h1"].cpu_millis) == (2, 2**62, 1000)
    assert [row.name for row in shop.read_now(lambda c: vms.of_hosts(c, ["id-of-h2"]))] == ["a", "b"]
    assert kept() == [(a, "home", "id-of-h1"), (a, "landing", "id-of-h2"), (b, "home", "id-of-h2")]
    shop.submit(lambda c: placements.drop_many(c, [(a, "landing")])).result(30)  # it was given up, and tried again
    assert kept() == [(a, "home", "id-of-h1"), (b, "home", "id-of-h2")]
    shop.submit(lambda c: placements.insert_many(c, [landing])).result(30)
    shop.submit(arrive).result(30)
    assert [row.vm for row in shop.read_now(lambda c: placements.of_host(c, "id-of-h1"))] == []
    assert kept() == [(a, "home", "id-of-h2"), (b, "home", "id-of-h2")]
    shop.submit(lambda c: placements.drop_many(c, [(a, "home")])).result(30)
    assert kept() == [(b, "home", "id-of-h2")]


@pytest.mark.parametrize("wrong", [{"host": "id-of-h2"}, {"host": "id-of-h1", "role": "landing"}])
def test_a_vm_has_one_home_and_no_second_place_on_a_host(shop, wrong):
    def work(connection) -> None:
        for name in ("h1", "h2"):
            hosts.insert(connection, host(name))
        insert_vms(connection, vm("a"))
        placements.insert_many(connection, [PlacementRow(vm=vm("a").id, host="id-of-h1")])

    shop.submit(work).result(30)
    with pytest.raises(StillUsedError):
        shop.submit(lambda c: placements.insert_many(c, [PlacementRow(vm=vm("a").id, **wrong)])).result(30)
    assert [row.host for row in shop.read_now(placements.all_rows)] == ["id-of-h1"]
