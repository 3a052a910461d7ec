"""What pages say of VMs that wait: for the rest of their gang, for hosts that a restore waits for, for others to go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from hostler.control.fleet.hosts.silence import mark_silent
from hostler.control.schemas import GangCreate
from hostler.control.services.vms import gangs
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from tests.wait import wait_until
from tests.web.service_in_thread import WebService, run_service_in_thread


@pytest.fixture
def service(tmp_path) -> Iterator[WebService]:
    """A service that knows nothing of other tests."""
    with run_service_in_thread(tmp_path) as found:
        yield found


def says(client: httpx.Client, path: str, words: str) -> bool:
    return words in client.get(path).text


def until_both_say(client: httpx.Client, vm: str, words: str) -> None:
    """Wait until the queue says it of a VM, and the page of the VM."""
    for path in ("/queue", f"/vms/{vm}"):
        wait_until(partial(says, client, path, words))


def test_a_member_of_a_gang_that_gathers_says_how_many_are_there(service: WebService, client: httpx.Client) -> None:
    service.add_hosts(1)
    first = service.create("one", gang="crew")
    until_both_say(client, first, "there is no gang default/crew yet")
    asked = GangCreate(name="crew", min_count=3)
    service.write(lambda connection: gangs.create(connection, asked, service.caller()))
    until_both_say(client, first, "1/3 members of gang default/crew are there, it waits for the rest")
    service.create("two", gang="crew")
    until_both_say(client, first, "2/3 members of gang default/crew are there, it waits for the rest")
    assert not says(client, "/queue", "the decision is pending")
    third = service.create("three", gang="crew")
    service.until_decided([first, third])
    wait_until(partial(says, client, "/queue", "No VM waits"))
    assert "waits for a place" not in client.get(f"/vms/{first}").text


def test_a_vm_that_found_no_place_says_when_it_was_tried(service: WebService, client: httpx.Client) -> None:
    service.add_hosts(1)
    huge = service.create("huge", cpu="64")
    until_both_say(client, huge, '(tried <time datetime="')


def test_a_vm_whose_only_host_has_not_registered_since_a_restore_says_so(
    service: WebService, client: httpx.Client
) -> None:
    service.add_hosts(1)

    def restore(connection: Connection) -> None:
        row = hosts.find_by_name(connection, "host-00")
        assert row is not None
        assert not row.agent, "a restore takes the agent away that registered"
        mark_silent(connection, row, state="silent", actor="leader", text="not heard", now_ns=time.time_ns())

    service.write(restore)
    vm = service.create("waits")
    service.until_decided([vm])
    queue = client.get("/queue").text
    obstacles = queue.partition("<h2>Reasons")[2].partition("<h2>Waiting VMs")[0]
    assert "not registered since restore" in obstacles
    assert "cordoned" not in queue
    page = client.get(f"/vms/{vm}").text
    assert "not registered since restore" in page.partition("Placement")[2]
    assert "start the agent of host-00: it has not registered since the restore" in page


def test_a_vm_for_which_others_make_way_says_where_and_they_say_for_whom(
    service: WebService, client: httpx.Client
) -> None:
    service.add_hosts(1, cpu=4)
    low = service.create("low", cpu="4")
    service.until_decided([low])
    service.report(low)
    high = service.create("high", cpu="4", priority=10)
    until_both_say(client, high, "room is made for it on host-00")
    assert "It waits for a place: room is made for it on host-00." in client.get(f"/vms/{high}").text
    service.report(low, "stopped")
    wait_until(lambda: service.vm(high).vm.home is not None)
    assert not says(client, f"/vms/{high}", "room is made")
    assert says(client, f"/vms/{low}", "stopped to make room for high, a VM of higher priority")
