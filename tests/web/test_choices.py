"""What pages say of a host that was chosen, of one that cannot let a VM go, and of one that keeps room for others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.schemas import ReservationCreate
from hostler.control.services.tenancy import reservations
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from tests.wait import GIVE_UP_S, wait_until
from tests.web.service_in_thread import WebService, run_service_in_thread


@pytest.fixture
def service(tmp_path: Path) -> Iterator[WebService]:
    """A service with two hosts that are alike."""
    with run_service_in_thread(tmp_path) as found:
        found.add_hosts(2)
        yield found


def place(service: WebService, name: str, **spec: str) -> str:
    vm = service.create(name, memory="1Gi", **spec)
    service.until_decided([vm])
    service.report(vm)
    return vm


def test_chosen_host_that_is_no_longer_best_is_marked_with_its_time(service: WebService, client: httpx.Client) -> None:
    vm = place(service, "first", cpu="1", strategy="spread")
    home = service.vm(vm).vm.home
    assert home is not None
    assert "then-and-now" not in client.get(f"/vms/{vm}").text
    place(service, "second", cpu="8", host_name=home.name)
    page = client.get(f"/vms/{vm}").text
    assert page.count('<span class="badge good">its host</span>') == 1
    row = page.partition('<span class="badge good">its host</span>')[0].rpartition("<tr>")[2]
    assert home.name in row
    said = page.partition('<p id="then-and-now">')[2].partition("</p>")[0]
    assert home.name in said
    assert "was the best host when the VM was placed" in said


def cannot_send(connection: Connection, host: str) -> None:
    """Let the agent of a host say that its driver moves no VMs that run."""
    row = hosts.get(connection, host)
    body = read_body(row)
    unable = msgspec.structs.replace(body.capabilities, live_migration=False)
    announce(connection, row, row, msgspec.structs.replace(body, capabilities=unable), actor="agent", now_ns=1)


def test_vm_that_cannot_migrate_shows_why_instead_of_the_button(service: WebService, client: httpx.Client) -> None:
    vm = place(service, "heavy", cpu="1")
    home = service.vm(vm).vm.home
    assert home is not None
    assert 'id="ask-migrate"' in client.get(f"/vms/{vm}").text
    service.write(lambda connection: cannot_send(connection, home.host))
    page = client.get(f"/vms/{vm}").text
    assert 'id="ask-migrate"' not in page
    said = page.partition('id="unmovable">')[2].partition("</p>")[0]
    assert f"on host {home.name}, whose fake driver cannot move VMs that run" in said
    assert "stop it, migrate it while it is stopped" in said
    watcher = httpx.Client(base_url=service.url, timeout=GIVE_UP_S)
    with watcher:
        watcher.post("/login", data={"key": service.make_key("viewer")}, headers={"Origin": service.url})
        assert "unmovable" not in watcher.get(f"/vms/{vm}").text  # who may not move it anyway need not know


def test_the_page_of_a_host_shows_what_reservations_keep_there(service: WebService, client: httpx.Client) -> None:
    assert "kept by reservation" not in client.get("/hosts/host-00").text
    asked = ReservationCreate(name="night", amounts={"cpu": "1", "memory": "3Gi"})
    service.write(lambda connection: reservations.create(connection, asked, service.caller()))
    wait_until(lambda: "kept by reservation default/night" in client.get("/hosts/host-00").text)
    page = client.get("/hosts/host-00").text
    said = page.partition("<dt>Reserved</dt><dd>")[2].partition("</dd>")[0]
    assert said.startswith("cpu 1, memory 3 GiB ")
