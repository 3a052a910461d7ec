"""The page of a host that is drained: who cannot leave it, and why, as long as that is so."""

from __future__ import annotations

import time

from hostler.control.fleet.hosts.drains import drain_step
from hostler.control.store import Connection
from tests.wait import wait_until
from tests.web.conftest import OpenWindow
from tests.web.service_in_thread import WebService

HOST, HOST_ID = "host-70", "h0070"


def look(connection: Connection) -> None:
    """Do what the leader does about a host that is drained."""
    drain_step(connection, HOST_ID, at_once=4, without=(), now_ns=time.time_ns())


def test_vm_that_cannot_leave_a_draining_host_is_shown_with_its_reason(
    window: OpenWindow, service: WebService, made: dict[str, str]
) -> None:
    service.add_hosts(1, first=70)
    vm = service.create("pinned", host_name=HOST)
    service.until_decided([vm])
    service.report(vm)
    one = window()
    one.open(f"/hosts/{HOST}")
    one.page.click("#ask-drain")
    one.page.wait_for_selector("#question")
    assert "1 VM will leave, where other hosts have room." in one.page.inner_text("#question")
    one.page.click("#question button")
    one.page.wait_for_url("**?done=drain")
    assert "cannot leave" not in one.page.inner_text("main")
    service.write(look)
    wait_until(lambda: service.vm(vm).vm.moving is None)
    one.open(f"/hosts/{HOST}")
    told = one.page.inner_text(".message.warn")
    assert "1 VM cannot leave:" in told
    assert "default/pinned: 0 of " in told
    assert "not the named host" in told
    assert one.page.locator(".message.warn a").get_attribute("href") == f"/vms/{vm}"
    one.page.click("text=Stop draining")
    one.page.wait_for_url("**?done=undrain")
    assert "cannot leave" not in one.page.inner_text("main")
