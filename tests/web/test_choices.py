"""What pages say of a host that was chosen, of one that cannot let a VM go, and of one that keeps room for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from hostler.control.api.shapes import ReservationCreate
from hostler.control.fleet.announcing import announce
from hostler.control.fleet.hosts import read_body
from hostler.control.services import reservations
from hostler.control.store import Connection, hosts
from tests.wait import GIVE_UP_S, wait_until
from tests.web.lab import Lab, running_lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A service with two hosts that are alike."""
    with running_lab(tmp_path) as found:
        found.add_hosts(2)
        yield found


def place(lab: Lab, name: str, **spec: str) -> str:
    vm = lab.create(name, memory="1Gi", **spec)
    lab.until_decided([vm])
    lab.report(vm)
    return vm


def test_a_host_that_others_have_overtaken_is_marked_and_the_page_says_that_it_was_chosen_then(
    lab: Lab, client: httpx.Client
) -> None:
    vm = place(lab, "first", cpu="1", strategy="spread")
    home = lab.vm(vm).vm.home
    assert home is not None
    assert "then-and-now" not in client.get(f"/vms/{vm}").text
    place(lab, "second", cpu="8", host_name=home.name)
    page = client.get(f"/vms/{vm}").text
    assert page.count('<span class="badge good">chosen</span>') == 1
    row = page.partition('<span class="badge good">chosen</span>')[0].rpartition("<tr>")[2]
    assert home.name in row
    said = page.partition('<p id="then-and-now">')[2].partition("</p>")[0]
    assert home.name in said
    assert "was chosen by what hosts said at that time" in said


def cannot_send(connection: Connection, host: str) -> None:
    """Let the agent of a host say that its driver moves no VMs that run."""
    row = hosts.get(connection, host)
    body = read_body(row)
    unable = msgspec.structs.replace(body.capabilities, live_migration=False)
    announce(connection, row, row, msgspec.structs.replace(body, capabilities=unable), actor="agent", now_ns=1)


def test_a_vm_whose_host_cannot_send_it_is_not_offered_to_migrate_and_the_page_says_why(
    lab: Lab, client: httpx.Client
) -> None:
    vm = place(lab, "heavy", cpu="1")
    home = lab.vm(vm).vm.home
    assert home is not None
    assert 'id="ask-migrate"' in client.get(f"/vms/{vm}").text
    lab.write(lambda connection: cannot_send(connection, home.host))
    page = client.get(f"/vms/{vm}").text
    assert 'id="ask-migrate"' not in page
    said = page.partition('id="unmovable">')[2].partition("</p>")[0]
    assert f"on host {home.name}, whose fake driver cannot move VMs that run" in said
    assert "stop it, migrate it while it is stopped" in said
    watcher = httpx.Client(base_url=lab.url, timeout=GIVE_UP_S)
    with watcher:
        watcher.post("/login", data={"key": lab.make_key("viewer")}, headers={"Origin": lab.url})
        assert "unmovable" not in watcher.get(f"/vms/{vm}").text  # who may not move it anyway need not know


def test_the_page_of_a_host_shows_what_reservations_keep_there(lab: Lab, client: httpx.Client) -> None:
    assert "kept by reservation" not in client.get("/hosts/host-00").text
    asked = ReservationCreate(name="night", amounts={"cpu": "1", "memory": "3Gi"})
    lab.write(lambda connection: reservations.create(connection, asked, lab.caller()))
    wait_until(lambda: "kept by reservation default/night" in client.get("/hosts/host-00").text)
    page = client.get("/hosts/host-00").text
    said = page.partition("<dt>Reserved</dt><dd>")[2].partition("</dd>")[0]
    assert said.startswith("cpu 1, memory 3 GiB ")
