"""Creating and resizing VMs by forms, with and without JavaScript: what is typed, what is refused, what stays."""

from __future__ import annotations

import time
from urllib.parse import urlencode

import httpx
import pytest

from hostler.control.api.requests.call import new_id
from hostler.control.schemas import Problem, VmEdit
from hostler.control.services.vms import vm_changes
from hostler.control.store.rows.vms import VmFilter
from hostler.control.store.rows.vms import list_page as list_vms
from hostler.control.vms.state import Vm
from hostler.web.pages.vm_creation import DiskForm, VmForm, field_of_problem, read_vm_form, request_of
from tests.wait import GIVE_UP_S
from tests.web.conftest import OpenWindow, Window
from tests.web.service_in_thread import WebService


def named(service: WebService, name: str) -> Vm | None:
    rows = service.read(lambda connection: list_vms(connection, VmFilter(name=name))).items
    return service.vm(rows[0].id).vm if rows else None


def fill(window: Window, **values: str) -> None:
    for name, value in values.items():
        window.page.fill(f"#n-{name.replace('_', '-')}", value)


def wrong(window: Window, name: str) -> str:
    """Return what stands beside a field, which points at it."""
    window.page.wait_for_selector(f"#n-{name}[aria-invalid='true']")
    field = window.page.locator(f"#n-{name}")
    assert f"n-{name}-wrong" in (field.get_attribute("aria-describedby") or "")
    return window.page.inner_text(f"#n-{name}-wrong")


@pytest.mark.parametrize("has_script", [True, False])
def test_a_vm_is_created_from_the_list(has_script: bool, window: OpenWindow, service: WebService) -> None:
    one, name = window(java_script_enabled=has_script), f"made-{has_script}".lower()
    one.open("/vms?project=shop")
    one.page.click("#new-vm")
    one.page.wait_for_url("**/vms/new?project=shop")
    assert one.page.input_value("#n-project") == "shop"
    fill(one, name=name, cpu="500m", memory="1Gi", priority="3", labels="app=web, tier=front")
    one.page.select_option("#n-strategy", "best_fit")
    fill(one, disk_0_size="10Gi", disk_0_storage="san")
    one.page.click("text=Add a disk")
    assert named(service, name) is None
    fill(one, disk_1_size="1Gi", disk_1_image="/images/debian.qcow2")
    one.page.click("button.first")
    one.page.wait_for_url("**/vms/*?done=create")
    assert one.page.inner_text("h1") == name
    vm = named(service, name)
    assert vm is not None
    assert (vm.project, vm.spec.cpu, vm.spec.memory, vm.spec.priority) == ("shop", "500m", "1Gi", 3)
    assert (vm.spec.strategy, vm.spec.labels) == ("best_fit", {"app": "web", "tier": "front"})
    assert [(disk.size, disk.storage) for disk in vm.spec.disks] == [("10Gi", "san"), ("1Gi", "")]
    assert vm.spec.disks[1].image is not None
    assert vm.spec.disks[1].image.path == "/images/debian.qcow2"
    assert one.said == []


def test_enter_creates_and_adds_no_disk(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    one = window()
    one.open("/vms/new")
    one.page.wait_for_function("document.activeElement.id === 'n-name'")
    one.page.keyboard.type("entered")
    one.page.keyboard.press("Enter")
    one.page.wait_for_url("**/vms/*?done=create")
    assert named(service, "entered") is not None


def test_who_clicks_twice_creates_once(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    one = window()
    one.open("/vms/new?name=twice&cpu=1&memory=1Gi")
    asked = len(one.asked)
    one.page.dblclick("button.first")
    one.page.wait_for_url("**/vms/*?done=create")
    assert [url for url in one.asked[asked:] if url.endswith("/vms/new")] == [f"{service.url}/vms/new"]


@pytest.mark.parametrize("has_script", [True, False])
def test_what_is_refused_stands_beside_its_field_and_what_was_typed_stays(
    has_script: bool, window: OpenWindow, service: WebService, made: dict[str, str]
) -> None:
    one = window(java_script_enabled=has_script)
    one.open("/vms/new")
    fill(one, name="refused", memory="8Gi", gang="crew", cpu="lots")
    one.page.click("button.first")
    assert one.path == "/vms/new"
    assert "not created" in one.page.inner_text("[role=alert]")
    assert "cpu: " in wrong(one, "cpu")
    assert "invalid_quantity" in wrong(one, "cpu")
    assert [one.page.input_value(f"#n-{name}") for name in ("name", "memory", "gang", "cpu")] == [
        "refused", "8Gi", "crew", "lots",
    ]  # fmt: skip
    fill(one, cpu="1", disk_0_storage="san")
    one.page.click("button.first")
    assert "disks[0].size" in wrong(one, "disk-0-size")
    fill(one, disk_0_size="1Gi", name="web-01")
    one.page.click("button.first")
    assert "has a VM web-01 already" in wrong(one, "name")
    assert one.page.locator("[aria-invalid]").count() == 1
    assert named(service, "refused") is None


def test_rest_and_the_form_refuse_with_the_same_words(
    window: OpenWindow, service: WebService, made: dict[str, str]
) -> None:
    one = window()
    one.open("/vms/new?name=-wrong&cpu=2&memory=1Gi")
    one.page.click("button.first")
    shown = wrong(one, "name")
    told = httpx.post(
        f"{service.url}/v1/vms",
        json={"name": "-wrong", "spec": {"cpu": "2", "memory": "1Gi"}},
        headers={"Authorization": f"Bearer {service.key}"},
        timeout=GIVE_UP_S,
    ).json()
    for part in ("detail", "hint", "code"):
        assert told[part] in shown


def test_a_vm_that_must_not_wait_is_refused_with_every_hosts_verdict(
    window: OpenWindow, service: WebService, made: dict[str, str]
) -> None:
    one = window()
    one.open("/vms/new")
    fill(one, name="colossus", cpu="900")
    one.page.select_option("#n-on_unplaceable", "fail")
    one.page.click("button.first")
    one.page.wait_for_selector("[role=alert]")
    assert "insufficient_resources" in one.page.inner_text("[role=alert]")
    assert "20 hosts would not" in one.page.inner_text("main")
    assert one.page.input_value("#n-on_unplaceable") == "fail"
    assert named(service, "colossus") is None


def test_only_who_may_create_is_offered_it(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    one = window(key=service.make_key("operator"))
    one.open("/vms")
    assert one.page.locator("#new-vm").count() == 0
    assert one.open("/vms/new") == 403
    two = window(key=service.make_key("editor", "shop"))
    two.page.click("#new-vm")
    two.page.wait_for_selector("#n-project option", state="attached")
    assert two.page.locator("#n-project option").all_inner_texts() == ["shop"]
    fill(two, name="ours", cpu="1", memory="1Gi")
    two.page.click("button.first")
    two.page.wait_for_url("**/vms/*?done=create")
    assert one.said == [] or "403" in one.said[0]


def test_another_site_creates_nothing(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    one = window()
    (cookie,) = one.page.context.cookies()
    body = urlencode({"name": "forged", "cpu": "1", "memory": "1Gi", "project": "default"})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": service.url}
    with httpx.Client(timeout=GIVE_UP_S, cookies={cookie["name"]: cookie["value"]}) as client:
        answer = client.post(f"{service.url}/vms/new", content=body, headers=headers)
    assert answer.status_code == 403
    assert named(service, "forged") is None


@pytest.fixture
def vm(service: WebService, made: dict[str, str]) -> str:
    identity = service.create(f"sized-{time.time_ns()}", cpu="1", memory="1Gi")
    service.until_decided([identity])
    service.report(identity)
    return identity


@pytest.mark.parametrize("has_script", [True, False])
def test_a_vm_is_resized_from_its_page(has_script: bool, window: OpenWindow, service: WebService, vm: str) -> None:
    one = window(java_script_enabled=has_script)
    one.open(f"/vms/{vm}")
    one.page.click("#ask-resize")
    one.page.wait_for_selector("#n-cpu")
    assert (one.path == f"/vms/{vm}") == has_script  # a dialog, or a page of its own
    assert one.page.input_value("#n-memory") == "1Gi"
    fill(one, cpu="2")
    one.page.click("#question button")
    one.page.wait_for_url(f"**/vms/{vm}?done=resize")
    assert (service.vm(vm).vm.spec.cpu, service.vm(vm).vm.spec.memory) == ("2", "1Gi")
    assert one.said == []


def test_resize_reports_that_another_user_changed_the_vm(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    one.open(f"/vms/{vm}/resize")
    other = VmEdit(spec={"cpu": "3"})
    service.write(lambda connection: vm_changes.edit(connection, vm, other, service.caller(), new_id))
    fill(one, memory="2Gi")
    one.page.click("#question button")
    alert = one.page.inner_text("[role=alert]")
    assert "changed by another user" in alert
    assert "running with 3 CPU and 1 GiB" in alert
    assert "stale_version" in alert
    assert one.page.input_value("#n-memory") == "2Gi"
    assert service.vm(vm).vm.spec.cpu == "3"
    fill(one, cpu="3")
    one.page.click("#question button")
    one.page.wait_for_url(f"**/vms/{vm}?done=resize")
    assert (service.vm(vm).vm.spec.cpu, service.vm(vm).vm.spec.memory) == ("3", "2Gi")


def test_a_report_of_the_agent_is_nobodys_change(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    one.open(f"/vms/{vm}/resize")
    service.report(vm, "paused")
    fill(one, cpu="2")
    one.page.click("#question button")
    one.page.wait_for_url(f"**/vms/{vm}?done=resize")


def test_a_size_that_cannot_be_is_refused_beside_its_field(window: OpenWindow, service: WebService, vm: str) -> None:
    one = window()
    before = service.vm(vm).vm.generation
    one.open(f"/vms/{vm}/resize")
    fill(one, memory="some")
    one.page.click("#question button")
    assert "memory: " in wrong(one, "memory")
    assert one.page.input_value("#n-memory") == "some"
    fill(one, memory="1Gi")
    one.page.click("#question button")
    one.page.wait_for_url(f"**/vms/{vm}")  # nothing changed, so nothing was done
    assert service.vm(vm).vm.generation == before


def test_rows_of_disks_without_anything_typed_are_none() -> None:
    typed = read_vm_form({"name": "a", "disk-0-size": " ", "disk-1-size": "2Gi", "disk-2-size": ""})
    assert typed.disks == (DiskForm(), DiskForm(size="2Gi"), DiskForm())
    assert typed.without_gaps.disks == (DiskForm(size="2Gi"),)
    assert request_of(VmForm(name="a")).spec.disks == []


@pytest.mark.parametrize(
    ("detail", "code", "place"),
    [
        ("cpu: '' is no amount", "invalid_quantity", "cpu"),
        ("Expected `str` of length >= 1 - at `$.name`", "invalid_input", "name"),
        ("Expected `str` - at `$.spec.labels[...]`", "invalid_input", ""),
        ("disks[2].size: 0 is out of range", "invalid_quantity", "disk-2-size"),
        ("disks[1].image.url: not a web address", "invalid_input", "disk-1-image"),
        ("disks[1].image.sha256: needed for a URL", "invalid_input", "disk-1-sha256"),
        ("disks: together they are too large", "invalid_input", "disk-0-size"),
        ("there is no strategy 'x'", "invalid_strategy", "strategy"),
        ("project gone does not exist", "not_found", "project"),
        ("no host is ready", "no_available_agents", ""),
        ("network: a bridge needs its name", "invalid_input", ""),
    ],
)
def test_a_problem_finds_its_field(detail: str, code: str, place: str) -> None:
    assert field_of_problem(Problem(title="", status=400, code=code, detail=detail)) == place
