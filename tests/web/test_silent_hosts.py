"""Silent hosts: they stand out on the map, and their VMs say what to do instead of offering what cannot work."""

from __future__ import annotations

import time

import httpx
import msgspec
import pytest
from playwright.sync_api import Locator, ViewportSize

from hostler.control.fleet.hosts.silence import mark_silent
from hostler.control.store import Connection
from hostler.control.store.rows.hosts import get as get_host
from tests.wait import wait_until
from tests.web.conftest import OpenWindow
from tests.web.service_in_thread import WebService

PHONE: ViewportSize = {"width": 400, "height": 800}
DESK: ViewportSize = {"width": 1280, "height": 800}
STYLE = "one => { const s = getComputedStyle(one); return [s.backgroundColor, s.boxShadow]; }"


def style_of(cell: Locator) -> list[str]:
    """Return background and shadow of a cell. While the page replaces it, a cell that was found has none."""
    found: list[list[str]] = []

    def is_in_page() -> bool:
        found.append(cell.evaluate(STYLE))
        return all(found[-1])

    wait_until(is_in_page, "the cell has a style")
    return found[-1]


def fall_silent(service: WebService, host: str) -> None:
    def work(connection: Connection) -> None:
        row = msgspec.structs.replace(get_host(connection, host), agent="1")  # it has registered
        mark_silent(connection, row, state="silent", actor="tests", text="not heard", now_ns=time.time_ns())

    service.write(work)


@pytest.fixture
def vm(service: WebService, made: dict[str, str], request: pytest.FixtureRequest) -> str:
    """A running VM of the test's own, whose host is silent."""
    identity = service.create(f"cut-off-{abs(hash(request.node.name)) % 10**6}", cpu="1", memory="1Gi")
    service.until_decided([identity])
    service.report(identity)
    home = service.vm(identity).vm.home
    assert home is not None
    fall_silent(service, home.host)
    return identity


@pytest.mark.parametrize("size", [PHONE, DESK])
def test_silent_host_stands_out_on_the_map(
    service: WebService, made: dict[str, str], window: OpenWindow, size: ViewportSize
) -> None:
    service.add_hosts(1, first=60 + size["width"] % 7)
    host = f"h{60 + size['width'] % 7:04}"
    one = window(viewport=size)
    one.open("/")
    cell = one.page.locator(f"#h-{host}")
    before = style_of(cell)
    fall_silent(service, host)
    wait_until(lambda: one.open("/") == 200 and cell.locator(".state").count() == 1, "the host is shown as silent")
    after = style_of(cell)
    assert before[0] != after[0]
    assert (before[1], after[1] != "none") == ("none", True)
    label = cell.locator(".state")
    box = label.bounding_box()
    assert box is not None
    assert (label.inner_text(), box["height"] > 12) == ("silent", True)


def test_vm_on_a_silent_host_says_what_to_do(client: httpx.Client, service: WebService, vm: str) -> None:
    home = service.vm(vm).vm.home
    assert home is not None
    page = client.get(f"/vms/{vm}").text
    for verb in ("start", "resume", "restart", "pause", "migrate"):
        assert f'/vms/{vm}/{verb}"' not in page
    assert f'/vms/{vm}/delete"' in page
    assert f"It is on {home.name}, which is silent: it is unknown whether it runs." in page
    assert f"Bring {home.name} back" in page
    assert f'<a href="/hosts/{home.name}/confirm-dead">confirm that it is dead</a>' in page
    assert "The VM is then stopped, and can be started on another host." in page


def test_vm_on_a_silent_host_sends_others_to_an_administrator(service: WebService, vm: str) -> None:
    with httpx.Client(base_url=service.url) as viewer:
        viewer.post("/login", data={"key": service.make_key("viewer", "default")}, headers={"Origin": service.url})
        page = viewer.get(f"/vms/{vm}").text
    assert "which is silent: it is unknown whether it runs" in page
    assert "confirm-dead" not in page
    assert "Ask an administrator of the fleet" in page
