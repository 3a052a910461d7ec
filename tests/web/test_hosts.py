"""What is done to hosts from their page, and that only those who may are offered it."""

from __future__ import annotations

import itertools
import time

import pytest

from hostler.control.store.rows.hosts import HostRow
from hostler.control.store.rows.hosts import get as get_host
from tests.web.conftest import OpenWindow, Window
from tests.web.service_in_thread import WebService

NUMBERS = itertools.count(40)  # of hosts that are these tests' own


@pytest.fixture
def host(service: WebService, made: dict[str, str]) -> str:
    """The name of a host of the test's own."""
    number = next(NUMBERS)
    service.add_hosts(1, first=number)
    return f"host-{number:02}"


def row(service: WebService, host: str) -> HostRow:
    return service.read(lambda connection: get_host(connection, f"h{int(host.removeprefix('host-')):04}"))


def answer(window: Window, verb: str, typed: str) -> None:
    window.page.click(f"#ask-{verb}")
    window.page.wait_for_selector("#confirm")
    window.page.fill("#confirm", typed)
    window.page.click("#question button")


@pytest.mark.parametrize("has_script", [True, False])
def test_a_host_is_forced_offline_confirmed_dead_and_deleted_by_its_name(
    has_script: bool, window: OpenWindow, service: WebService, host: str
) -> None:
    one = window(java_script_enabled=has_script)
    one.open(f"/hosts/{host}")
    assert one.page.locator("#ask-confirm-dead").count() == 0  # it is not silent
    answer(one, "force-offline", "another")
    assert "is not the name of the host" in one.page.inner_text("[role=alert]")
    assert row(service, host).state == "ready"
    one.page.fill("#confirm", host)
    one.page.click("#question button")
    one.page.wait_for_url("**?done=force-offline")
    assert row(service, host).state == "offline"
    assert one.page.locator("#ask-force-offline").count() == 0
    answer(one, "confirm-dead", host)
    one.page.wait_for_url("**?done=confirm-dead")
    assert row(service, host).state == "fenced"
    answer(one, "delete", host)
    one.page.wait_for_url("**/?done=host-delete")
    assert "The host is gone." in one.page.inner_text("main")
    assert row(service, host).deleted_ns is not None
    assert one.page.locator(".heat a", has_text=host).count() == 0
    assert [text for text in one.said if "400" not in text] == []  # browsers tell of the one refusal


def test_a_host_that_has_vms_is_not_deleted(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    home = service.vm(made["web-00"]).vm.home
    assert home is not None
    one = window()
    one.open(f"/hosts/{home.name}")
    answer(one, "delete", home.name)
    assert "has " in one.page.inner_text("[role=alert]")
    assert "drain it" in one.page.inner_text("[role=alert]")
    assert row(service, home.name).deleted_ns is None


def test_vms_of_a_dead_host_that_may_start_elsewhere_do(window: OpenWindow, service: WebService, host: str) -> None:
    vm = service.create(f"restless-{time.time_ns()}", cpu="1", memory="1Gi", when_lost="restart", host_name=host)
    service.until_decided([vm])
    service.report(vm)
    one = window()
    one.open(f"/hosts/{host}")
    answer(one, "force-offline", host)
    one.page.wait_for_url("**?done=force-offline")
    assert service.vm(vm).vm.home is not None
    one.page.click("#ask-confirm-dead")
    one.page.wait_for_selector("#confirm")
    text = one.page.inner_text("#question")
    assert "1 VM is there now" in text
    assert "run twice" in text
    one.page.fill("#confirm", host)
    one.page.click("#question button")
    one.page.wait_for_url("**?done=confirm-dead")
    assert service.vm(vm).vm.home is None


def test_operators_cordon_and_drain_and_only_administrators_do_more(
    window: OpenWindow, service: WebService, host: str
) -> None:
    def offered(key: str) -> list[str]:
        one = window(key=key)
        one.open(f"/hosts/{host}")
        if one.page.locator(".actions").count() == 0:
            return []
        return one.page.locator(".actions .button, .actions button").all_inner_texts()

    assert offered(service.make_key("viewer")) == []
    assert offered(service.make_key("operator")) == ["Cordon", "Drain"]
    assert offered(service.make_key("editor")) == ["Cordon", "Drain"]
    assert offered(service.key) == ["Cordon", "Drain", "Force offline", "Delete"]
    one = window(key=service.make_key("operator"))
    for verb in ("force-offline", "confirm-dead", "delete", "allow-teardown"):
        assert one.open(f"/hosts/{host}/{verb}") == 403
        assert "host.admin needs the role admin" in one.page.inner_text("[role=alert]")


def test_the_teardown_of_many_is_allowed_by_their_number(window: OpenWindow, service: WebService, host: str) -> None:
    one = window()
    one.open(f"/hosts/{host}/allow-teardown")
    assert "0 VMs will be removed" in one.page.inner_text("#question")
    for typed, said in (("many", "not a whole number"), ("3", "is to remove 0 VMs, not 3")):
        one.page.fill("#confirm", typed)
        one.page.click("#question button")
        assert said in one.page.inner_text("[role=alert]")
