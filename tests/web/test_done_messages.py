"""Messages about an action: shown while they are true, and gone by themselves afterwards."""

from __future__ import annotations

import time
from functools import partial

import httpx
import pytest

from hostler.control.fleet import operator_actions
from tests.web.conftest import OpenWindow
from tests.web.service_in_thread import WebService


@pytest.fixture
def vm(service: WebService, made: dict[str, str], request: pytest.FixtureRequest) -> str:
    """A running VM of the test's own."""
    identity = service.create(f"done-{time.time_ns()}", cpu="1", memory="1Gi")
    service.until_decided([identity])
    service.report(identity)
    return identity


def ask(service: WebService, path: str, body: dict[str, str] | None = None) -> None:
    answer = httpx.post(service.url + path, headers={"Authorization": f"Bearer {service.key}"}, json=body)
    assert answer.status_code in (200, 202), answer.text


def test_message_disappears_when_the_vm_has_stopped(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    one.open(f"/vms/{vm}/stop")
    one.page.click("#question button")
    one.page.wait_for_url("**?done=stop")
    one.page.wait_for_selector("#live.on")
    assert one.page.inner_text("#done").strip() == "It will stop."
    service.report(vm, "stopped")
    one.page.wait_for_selector(".badge:has-text('stopped')")
    one.page.wait_for_function("document.querySelector('#done').textContent.trim() === ''")
    one.page.reload()
    assert one.page.inner_text("#done").strip() == ""
    assert one.said == []


@pytest.mark.parametrize(
    ("verb", "later", "message"),
    [
        ("stop", "start", "It will stop."),
        ("pause", "resume", "It will be paused."),
        ("start", "stop", "It will start."),
    ],
)
def test_message_is_gone_after_the_opposite_action(
    client: httpx.Client, service: WebService, vm: str, verb: str, later: str, message: str
) -> None:
    if verb == "start":
        ask(service, f"/v1/vms/{vm}/stop")
    ask(service, f"/v1/vms/{vm}/{verb}")
    assert message in client.get(f"/vms/{vm}?done={verb}").text
    ask(service, f"/v1/vms/{vm}/{later}")
    assert message not in client.get(f"/vms/{vm}?done={verb}").text


def test_messages_of_creation_and_migration_end_with_them(client: httpx.Client, service: WebService, vm: str) -> None:
    waiting = service.create(f"large-{time.time_ns()}", cpu="900", memory="1Gi")
    service.until_decided([waiting])
    assert "gets a place" in client.get(f"/vms/{waiting}?done=create").text
    assert "gets a place" not in client.get(f"/vms/{vm}?done=create").text
    assert "It will move" not in client.get(f"/vms/{vm}?done=migrate").text
    ask(service, f"/v1/vms/{vm}/migrate", {})
    assert "It will move" in client.get(f"/vms/{vm}?done=migrate").text


def test_message_about_a_host_ends_when_others_undo_it(
    client: httpx.Client, service: WebService, made: dict[str, str]
) -> None:
    message = "It takes no new VMs from now on."
    for is_cordoned in (True, False):
        times = {"actor": "tests", "now_ns": time.time_ns()}
        service.write(partial(operator_actions.cordon, host="h0017", is_cordoned=is_cordoned, **times))
        assert (message in client.get("/hosts/host-17?done=cordon").text) == is_cordoned


def test_list_says_when_the_vm_is_deleted(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    one.open(f"/vms/{vm}/delete")
    one.page.fill("#confirm", service.vm(vm).vm.name)
    one.page.click("#question button")
    one.page.wait_for_url("**/vms?done=delete&vm=*")
    one.page.wait_for_selector("#live.on")
    assert one.page.inner_text("#done").strip() == "The VM will be deleted."
    service.report(vm, "absent")
    one.page.wait_for_selector("#done >> text=The VM is deleted.")
