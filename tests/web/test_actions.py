"""Doing things from pages, with and without JavaScript; pages that keep themselves current; the keyboard."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import pytest

from hostler.control.fleet import operator_actions
from hostler.control.store import Connection
from hostler.control.store.rows import keys
from tests.wait import wait_until
from tests.web.conftest import OpenWindow, Window
from tests.web.service_in_thread import WebService, run_service_in_thread


@pytest.fixture
def vm(service: WebService, made: dict[str, str], request: pytest.FixtureRequest) -> str:
    """A VM of the test's own that runs."""
    identity = service.create(f"own-{zlib.crc32(request.node.name.encode())}", cpu="1", memory="1Gi")
    service.until_decided([identity])
    service.report(identity)
    return identity


def power(service: WebService, vm: str) -> str:
    return service.vm(vm).vm.power


@pytest.mark.parametrize("has_script", [True, False])
def test_a_vm_is_stopped_after_a_question_and_started_without_one(
    has_script: bool, window: OpenWindow, service: WebService, vm: str
) -> None:
    one = window(java_script_enabled=has_script)
    one.open(f"/vms/{vm}")
    one.page.click("text=Stop >> nth=0")
    if has_script:
        one.page.wait_for_selector("dialog[open]")
        assert one.path == f"/vms/{vm}"
    else:
        one.page.wait_for_url(f"**/vms/{vm}/stop")
    assert power(service, vm) == "running"
    one.page.click("#question button")
    one.page.wait_for_url(f"**/vms/{vm}?done=stop")
    assert "It will stop." in one.page.inner_text("[role=status] >> text=It will stop.")
    assert power(service, vm) == "stopped"
    one.page.click("text=Start")
    one.page.wait_for_url(f"**/vms/{vm}?done=start")
    assert power(service, vm) == "running"
    assert one.said == []


def test_every_verb_does_what_it_says(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window(java_script_enabled=False)
    before = service.vm(vm).vm
    for verb, is_so in (
        ("restart", lambda: service.vm(vm).vm.restarts == before.restarts + 1),
        ("pause", lambda: power(service, vm) == "paused"),
        ("resume", lambda: power(service, vm) == "running"),
        ("migrate", lambda: service.vm(vm).vm.moving is not None),
    ):
        one.open(f"/vms/{vm}/{verb}")
        one.page.click("#question button")
        one.page.wait_for_url(f"**/vms/{vm}?done={verb}")
        assert is_so(), verb


def test_a_dialog_that_is_closed_does_nothing(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    one.open(f"/vms/{vm}")
    for close in ("text=Cancel", "Escape"):
        one.page.click("#ask-delete")
        one.page.wait_for_selector("dialog[open]")
        if close == "Escape":
            one.page.keyboard.press(close)
        else:
            one.page.click(close)
        one.page.wait_for_selector("dialog:not([open])", state="attached")
    assert power(service, vm) == "running"
    assert one.said == []


@pytest.mark.parametrize("has_script", [True, False])
def test_a_vm_is_deleted_only_by_its_name(has_script: bool, window: OpenWindow, service: WebService, vm: str) -> None:
    one = window(java_script_enabled=has_script)
    one.open(f"/vms/{vm}")
    one.page.click("text=Delete")
    one.page.fill("#confirm", "another")
    one.page.click("#question button")
    assert "to confirm" in one.page.inner_text("[role=alert]")
    assert power(service, vm) == "running"
    one.page.fill("#confirm", service.vm(vm).vm.name)
    one.page.click("#question button")
    one.page.wait_for_url("**/vms?done=delete&vm=*")
    assert power(service, vm) == "absent"


def test_a_vm_that_waits_can_be_deleted_too(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    identity = service.create("hopeless", cpu="900", memory="1Gi")
    service.until_decided([identity])
    one = window()
    one.open(f"/vms/{identity}/delete")
    one.page.fill("#confirm", "hopeless")
    one.page.click("#question button")
    one.page.wait_for_url("**/vms?done=delete&vm=*")
    assert "is deleted" in one.page.inner_text(".message:not(#stale)")
    assert service.vm(identity).vm.is_gone
    assert one.open("/operations") == 200
    assert "vm.delete" in one.page.inner_text("tbody tr >> nth=0")  # the newest comes first


def test_a_refusal_is_shown_with_its_reason(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    one = window()
    one.open(f"/vms/{made['web-04']}/migrate")  # it has a disk on its host
    one.page.click("#question button")
    assert "has a disk on its host" in one.page.inner_text("[role=alert]")
    assert service.vm(made["web-04"]).vm.moving is None


@pytest.mark.parametrize("has_script", [True, False])
def test_a_host_is_cordoned_and_drained_from_its_page(
    has_script: bool, window: OpenWindow, service: WebService
) -> None:
    one = window(java_script_enabled=has_script)

    def row() -> tuple[bool, bool]:
        found = service.read(lambda connection: operator_actions.find_host(connection, "host-19"))
        return found.is_cordoned, found.is_draining

    one.open("/hosts/host-19")
    one.page.click("#ask-cordon")
    one.page.click("#question button")
    one.page.wait_for_url("**?done=cordon")
    assert row() == (True, False)
    one.page.click("text=Uncordon")
    one.page.wait_for_url("**?done=uncordon")
    assert row() == (False, False)
    one.page.click("#ask-drain")
    assert "go elsewhere" in one.page.inner_text("#question")
    one.page.click("#question button")
    one.page.wait_for_url("**?done=drain")
    assert row() == (False, True)
    one.page.click("text=Stop draining")
    one.page.wait_for_url("**?done=undrain")
    assert row() == (False, False)
    assert one.said == []


def test_open_pages_follow_what_happens(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    page, many = one.page, window().page
    one.open(f"/vms/{vm}")
    many.goto(f"{service.url}/vms?name={service.vm(vm).vm.name}")
    for each in (page, many):
        each.wait_for_selector("#live.on")
        each.wait_for_selector(".badge:has-text('running')")
    page.click("#spec summary")
    page.focus("#ask-stop")
    service.report(vm, "paused")
    for each in (page, many):
        each.wait_for_selector(".badge:has-text('paused')")
    page.wait_for_selector("#spec[open]")  # what is open stays open
    page.wait_for_function("document.activeElement.id === 'ask-stop'")
    assert one.said == []


def test_a_hidden_page_hangs_up_and_is_current_when_it_is_seen_again(
    window: OpenWindow, service: WebService, vm: str
) -> None:
    one = window()
    one.open(f"/vms/{vm}")
    one.page.wait_for_selector("#live.on")
    turn = """(isHidden) => {
        Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    one.page.evaluate(turn, True)
    wait_until(lambda: ("vm", vm) not in service.books.subscriptions._by_key)
    service.report(vm, "paused")
    one.page.evaluate(turn, False)
    one.page.wait_for_selector(".badge:has-text('paused')")


def test_the_map_follows_what_happens_and_the_filter_stays(window: OpenWindow, service: WebService) -> None:
    one = window()
    one.open("/")
    one.page.wait_for_selector("#live.on")
    one.page.fill("#f-host", "half a wo")
    one.page.focus("#h-h0018")
    now_ns = time.time_ns()
    service.write(lambda c: operator_actions.cordon(c, "h0018", is_cordoned=True, actor="tests", now_ns=now_ns))
    one.page.wait_for_selector("#h-h0018.shut")
    one.page.wait_for_function("document.activeElement.id === 'h-h0018'")
    assert one.page.input_value("#f-host") == "half a wo"
    one.page.wait_for_selector("#h-h0018[tabindex='0']")
    assert one.page.locator(".heat a[tabindex='0']").count() == 1
    service.write(lambda c: operator_actions.cordon(c, "h0018", is_cordoned=False, actor="tests", now_ns=now_ns))
    one.page.wait_for_selector("#h-h0018:not(.shut)")
    assert one.said == []


def test_a_page_of_a_revoked_key_ends_by_itself(window: OpenWindow, service: WebService) -> None:
    one = window(key=service.make_key("viewer"))
    one.open("/vms")
    one.page.wait_for_selector("#live.on")
    (cookie,) = one.page.context.cookies()
    session = service.do(
        service.context.authenticator.session(cookie["value"], service.context.signing, "", time.time_ns())
    )[0]

    def revoke(connection: Connection) -> None:
        row = keys.find_key(connection, session.key)
        assert row is not None
        keys.revoke_key(connection, row, time.time_ns())

    service.write(revoke)
    service.context.authenticator.forget(session.key)
    service.create(f"news-{time.time_ns()}", cpu="1", memory="1Gi")
    one.page.wait_for_url("**/login?next=**")


def test_a_question_that_cannot_be_asked_leads_to_the_reason(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    one.open(f"/vms/{vm}")
    one.page.evaluate("document.querySelector('#ask-stop').setAttribute('hx-get', '/vms/nobody/stop')")
    one.page.evaluate("document.querySelector('#ask-stop').href = '/vms/nobody/stop'")
    one.page.evaluate("htmx.process(document.querySelector('#ask-stop'))")
    one.page.click("#ask-stop")
    one.page.wait_for_url("**/vms/nobody/stop")
    assert "does not exist" in one.page.inner_text("[role=alert]")


def test_the_main_way_needs_only_the_keyboard(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window(key="")
    page, press = one.page, one.page.keyboard.press
    one.open("/login")
    page.wait_for_function("document.activeElement.id === 'key'")  # the field gets the focus by itself
    page.keyboard.type(service.key)
    press("Enter")
    page.wait_for_url(lambda url: "/login" not in url)
    press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    press("Enter")
    page.wait_for_function("location.hash === '#main'")
    one.open("/vms")
    press("/")
    assert page.evaluate("document.activeElement.id") == "f-name"
    page.keyboard.type(service.vm(vm).vm.name)
    press("Enter")
    page.wait_for_url("**name=own*")
    page.focus(f"#vm-{vm}")
    press("Enter")
    page.wait_for_url(f"**/vms/{vm}")
    page.focus("#ask-stop")
    press("Enter")
    page.wait_for_selector("dialog[open]")
    page.wait_for_function("document.activeElement.textContent === 'Stop'")
    press("Enter")
    page.wait_for_url("**?done=stop")
    assert power(service, vm) == "stopped"


def test_arrows_walk_over_the_map_which_is_one_stop(window: OpenWindow) -> None:
    one = window(viewport={"width": 1280, "height": 900})
    one.open("/")
    page, press = one.page, one.page.keyboard.press
    here = "document.activeElement.querySelector('.name').textContent"
    assert page.evaluate("document.querySelectorAll('.heat a[tabindex=\"0\"]').length") == 1
    page.focus(".heat a[tabindex='0']")
    press("ArrowRight")
    press("ArrowRight")
    assert page.evaluate(here) == "host-02"
    press("ArrowDown")
    assert page.evaluate(here) == "host-12"
    press("ArrowUp")
    press("ArrowLeft")
    assert page.evaluate(here) == "host-01"
    press("End")
    assert page.evaluate(here) == "host-19"
    press("Enter")
    page.wait_for_url("**/hosts/host-19")


def test_a_service_that_ends_does_not_wait_for_open_pages(tmp_path: Path, window: OpenWindow) -> None:
    one = window(key="")
    with run_service_in_thread(tmp_path) as other:
        Window(one.page, other).log_in(other.key)
        one.page.wait_for_selector("#live.on")
    one.page.wait_for_selector("#live.off")


def test_news_wakes_pages_of_many(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    one.open("/queue")
    one.page.wait_for_selector("#live.on")
    identity = service.create(f"late-{time.time_ns()}", cpu="500", memory="1Gi")
    one.page.wait_for_selector(f"#vm-{identity}")
    wait_until(lambda: service.vm(identity).vm.why != "")
    one.page.wait_for_selector(f"tr:has(#vm-{identity}) >> text=insufficient")
