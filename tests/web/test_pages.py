"""Every page in a real browser: it renders, says nothing wrong, asks nobody else, and fits its window."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page

from tests.web.conftest import OpenWindow, Window
from tests.web.service_in_thread import WebService, run_service_in_thread

PATHS = {
    "fleet": "/",
    "fleet by memory": "/?by=memory&sort=use",
    "fleet as a table": "/?view=table",
    "vms": "/vms",
    "filtered vms": "/vms?state=running&project=shop&name=&host=&label=",
    "vms by a part of their names": "/vms?name=EB-0",
    "a vm": "/vms/{web-01}",
    "a vm that waits": "/vms/{giant}",
    "a question": "/vms/{web-01}/migrate",
    "a new vm": "/vms/new?project=shop&disk-0-size=1Gi&disk-1-size=2Gi",
    "a vm's size": "/vms/{web-01}/resize",
    "queue": "/queue",
    "host": "/hosts/host-02",
    "drain": "/hosts/host-02/drain",
    "what if": "/what-if",
    "what if, answered": "/what-if?ask=1&cpu=4&memory=8Gi&count=3&selector=zone%3Da&without=host-03",
    "events": "/events",
    "operations": "/operations",
    "projects": "/projects",
}
HEADINGS = "[...document.querySelectorAll('h1,h2,h3,h4')].map(one => Number(one.tagName[1]))"
UNNAMED = """[...document.querySelectorAll('input:not([type=hidden]),select,textarea,button,a')].filter(one => {
    const label = one.labels && one.labels.length ? one.labels[0].textContent : '';
    return !(one.getAttribute('aria-label') || label || one.textContent).trim();
}).map(one => one.outerHTML)"""
DOUBLE_IDS = """(() => { const ids = [...document.querySelectorAll('[id]')].map(one => one.id);
    return ids.filter((id, at) => ids.indexOf(id) !== at); })()"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def address(path: str, made: dict[str, str]) -> str:
    for name, identity in made.items():
        path = path.replace(f"{{{name}}}", identity)
    return path


@pytest.mark.parametrize("name", PATHS)
def test_a_page_renders_fits_and_has_a_twin(
    name: str, reader: Window, made: dict[str, str], service: WebService
) -> None:
    one = reader
    one.said.clear()
    one.asked.clear()
    assert one.open(address(PATHS[name], made)) == 200
    one.page.wait_for_load_state("load")
    assert one.said == []
    assert [url for url in one.asked if not url.startswith(service.url + "/")] == []
    assert_is_built_well(one.page)
    assert_fits(one.page)
    assert_has_twin(one.page, service, name)


def assert_is_built_well(page: Page) -> None:
    """Who cannot see the page finds a way through it."""
    assert page.locator("h1").count() == 1
    assert page.get_attribute("html", "lang") == "en"
    levels = page.evaluate(HEADINGS)
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels)), levels
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(DOUBLE_IDS) == []


def assert_fits(page: Page) -> None:
    """It is never wider than its window."""
    for width in (1280, 768, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate(OVERFLOW) <= 0, width


def assert_has_twin(page: Page, service: WebService, name: str) -> None:
    """REST tells the same: what stands there of names, states, places and counts is on the page."""
    twin = page.get_attribute("link[rel=alternate][type='application/json']", "href")
    assert twin is not None
    assert page.locator(f".foot a[href='{twin}']").count() == 1
    answer = page.request.get(urljoin(service.url, twin))
    assert answer.status == 200, answer.text()
    assert answer.headers["content-type"] == "application/json"
    page.set_viewport_size({"width": 1280, "height": 800})
    shown, told = " ".join(page.inner_text("main").split()), facts(name, answer.json())
    assert [fact for fact in told if fact not in shown] == [], shown
    assert told or name in ("a new vm", "what if"), "pages that only ask"


def facts(name: str, told: dict[str, Any]) -> list[str]:
    """Return the words that a page must have if it tells the same as its twin."""
    items = told.get("items", [])
    match name:
        case "fleet" | "fleet by memory":
            return [f"Hosts {len(items)}", *(one["name"] for one in items)]
        case "fleet as a table":
            return [f"Hosts {len(items)}", *(f"{one['name']} {one['state']}" for one in items)]
        case "vms" | "filtered vms" | "vms by a part of their names":
            rows = [f"{one['name']} {one['project']} {one['state']} {one['host'] or ''}".strip() for one in items]
            return [f"{len(items)} VMs", *rows]
        case "a vm" | "a vm that waits":
            where = f"on {told['host']}" if told["host"] else told["why"]
            size = f"CPU, memory {told['spec']['cpu']}, {told['spec']['memory'].removesuffix('Gi')} GiB"
            return [f"{told['name']} {told['state']}", where, size, told["id"], f"version {told['version']}"]
        case "queue":
            rows = [f"{one['name']} {one['project']} {one['priority']}" for one in items]
            return [f"Waiting VMs ({len(items)})", *rows, *(one["why"] for one in items)]
        case "host":
            return [f"{told['name']} {told['state']}", f"{told['driver']} {told['agent_version']}", told["id"]]
        case "a question" | "a vm's size" | "drain":
            return [told["name"]]
        case "what if, answered":
            hosts = Counter(one["host"] for one in told["plan"]["placements"])
            return [f"{hosts.total()} VMs would have a place", *(f"{host} {vms}" for host, vms in hosts.items())]
        case "events":
            return [f"{one['about']} {one['text']}" for one in items if one["kind"] == "vm.placed"]
        case "operations":
            return [f"{one['kind']} {one['state']}" for one in items]
        case "projects":
            return [f"{one['name']} {one['vms']} VM" for one in items]
    return []


@pytest.mark.parametrize("name", ["fleet", "filtered vms", "vms by a part of their names", "a vm", "what if"])
def test_who_asks_for_json_gets_the_twin(name: str, reader: Window, made: dict[str, str], service: WebService) -> None:
    one = reader
    path = address(PATHS[name], made)
    answer = one.page.request.get(service.url + path, headers={"Accept": "application/json"})
    assert answer.status == 200, answer.text()
    told = json.loads(answer.body())
    if name == "filtered vms":
        assert {vm["name"] for vm in told["items"]} == {f"shop-{at}" for at in range(6)}
    if name == "vms by a part of their names":
        assert {vm["name"] for vm in told["items"]} == {f"web-0{at}" for at in range(10)}
    if name == "a vm":
        assert told["name"] == "web-01"


def test_the_answer_of_a_what_if_as_json_has_both_answers_of_rest(reader: Window, service: WebService) -> None:
    one = reader
    told = one.page.request.get(f"{service.url}/what-if?ask=json&cpu=4&memory=8Gi&count=3").json()
    assert len(told["plan"]["placements"]) == 3
    assert len(told["candidates"]["hosts"]) == 20
    wrong = one.page.request.get(f"{service.url}/what-if?ask=json&cpu=lots&memory=8Gi")
    assert wrong.status == 400
    assert wrong.json()["code"] == "invalid_quantity"


def test_pages_forbid_what_they_do_not_need(reader: Window, service: WebService) -> None:
    one = reader
    for path in ("/", "/login", "/vms/nobody"):
        headers = one.page.request.get(service.url + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_dark_mode_is_dark(window: OpenWindow) -> None:
    colors = {}
    one = window()
    one.open("/")
    for scheme in ("light", "dark"):
        one.page.emulate_media(color_scheme=scheme)
        colors[scheme] = one.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colors == {"light": "rgb(251, 251, 249)", "dark": "rgb(19, 23, 27)"}


def test_what_users_wrote_is_shown_as_text(window: OpenWindow, service: WebService) -> None:
    wrong = "<script>alert(1)</script>"
    service.until_decided([service.create("marked", labels={"note": wrong}, cpu="1", memory="1Gi")])
    one = window()
    one.open("/vms?name=marked")
    one.page.click("text=marked")
    assert wrong in one.page.inner_text("main")
    assert one.page.locator("main script").count() == 0
    assert one.said == []


def test_a_page_that_does_not_exist_says_so(reader: Window) -> None:
    one = reader
    assert one.open("/vms/nobody") == 404
    assert "does not exist" in one.page.inner_text("main")
    assert one.open("/hosts/nobody") == 404


def test_everything_can_be_read_without_javascript(
    window: OpenWindow, made: dict[str, str], service: WebService
) -> None:
    one = window(java_script_enabled=False)
    for name, path in PATHS.items():
        assert one.open(address(path, made)) == 200
        assert one.page.locator("main h1").is_visible()
        assert_has_twin(one.page, service, name)
    one.open("/")
    assert one.page.locator(".heat a").count() == 20
    one.page.click("text=host-02 >> nth=0")
    one.page.wait_for_url("**/hosts/host-02")


def test_lists_are_narrowed_by_parts_of_names(reader: Window, made: dict[str, str]) -> None:
    one = reader
    one.open("/vms")
    one.page.fill("#f-name", "P-3")
    one.page.keyboard.press("Enter")
    one.page.wait_for_url("**name=P-3**")
    assert one.page.locator("tbody th").all_inner_texts() == ["shop-3"]
    one.open("/vms?name=%25")  # a sign that means something in SQL
    assert "No VM matches." in one.page.inner_text("main")
    one.open("/?name=T-0")
    assert one.page.locator(".heat a").count() == 10
    one.open("/?name=_")
    assert "No host has" in one.page.inner_text("main")


def test_the_verdicts_of_all_hosts_are_grouped_by_reason(reader: Window, made: dict[str, str]) -> None:
    one = reader
    one.open(f"/vms/{made['picky']}")
    text = one.page.inner_text("main")
    assert "20 hosts would not" in text
    rows = one.page.locator("[aria-label='Reasons of the other hosts'] tbody tr")
    assert rows.count() == 1
    assert "selector mismatch zone=nowhere" in rows.first.inner_text()
    one.page.click("#group-1 summary")
    assert one.page.locator("#group-1 li").count() == 20


def test_a_what_if_says_where_and_changes_nothing(reader: Window, service: WebService) -> None:
    one = reader
    one.open("/what-if")
    one.page.fill("#n-cpu", "16")
    one.page.fill("#n-count", "50")
    before = service.books.seq
    one.page.click("text=Ask")
    assert "would wait" in one.page.inner_text(".message:not(#stale)")
    assert service.books.seq == before
    one.page.fill("#n-cpu", "much")
    one.page.click("text=Ask")
    assert "correct CPU." in one.page.inner_text("[role=alert]")
    assert one.page.input_value("#n-cpu") == "much"


def test_what_if_shows_each_wrong_field_with_its_own_hint(reader: Window) -> None:
    one = reader
    status = one.open("/what-if?ask=1&cpu=two&memory=4GB&count=0&selector=zone&disk=1Gi")
    assert status == 400
    assert "correct CPU, Memory, Only hosts with labels, How many." in one.page.inner_text("[role=alert]")
    for name, said, advised in (
        ("cpu", "cpu: ", "such as 2 or 500m"),
        ("memory", "memory: ", "did you mean 4Gi or 4G? write it as 4Gi or 512Mi"),
        ("selector", "labels: ", "zone=a"),
        ("count", "how many: ", "1 to 200"),
    ):
        field, shown = one.page.locator(f"#n-{name}"), one.page.inner_text(f"#n-{name}-wrong")
        assert field.get_attribute("aria-invalid") == "true"
        assert field.get_attribute("aria-describedby") == f"n-{name}-wrong"
        assert said in shown
        assert advised in shown
        below = one.page.locator(f"#n-{name}-wrong").bounding_box()
        box = field.bounding_box()
        assert below is not None
        assert box is not None
        assert abs(below["x"] - box["x"]) < 2, "it stands under its field"
        assert 0 <= below["y"] - (box["y"] + box["height"]) < 20
    assert "Gi" not in one.page.inner_text("#n-cpu-wrong")
    assert one.page.locator("[aria-invalid]").count() == 4
    assert one.page.input_value("#n-disk") == "1Gi"


@pytest.mark.parametrize(("query", "place"), [("without=nowhere", "without"), ("strategy=x", "strategy")])
def test_a_what_if_that_is_refused_as_a_whole_marks_its_field_too(query: str, place: str, reader: Window) -> None:
    assert reader.open(f"/what-if?ask=1&{query}") >= 400
    assert reader.page.locator("[aria-invalid]").count() == 1
    assert reader.page.locator(f"#n-{place}[aria-invalid]").count() == 1


def test_a_thousand_hosts_can_be_read(window: OpenWindow, tmp_path: Path) -> None:
    one = window(key="", viewport={"width": 1280, "height": 900})
    with run_service_in_thread(tmp_path) as large:
        large.add_hosts(1000)
        wide = large.create("wide", cpu="99", memory="1Gi")
        large.until_decided([wide])
        there = Window(one.page, large)
        there.log_in(large.key)
        assert one.page.locator(".heat.dense a").count() == 1000
        smallest = one.page.evaluate(
            """Math.min(...[...document.querySelectorAll('.heat .value')].map(
                one => one.getBoundingClientRect().height && parseFloat(getComputedStyle(one).fontSize)))"""
        )
        assert smallest >= 11
        assert one.page.evaluate("document.querySelector('.heat').getBoundingClientRect().height") < 800
        assert_fits(one.page)
        there.open("/?name=host-99")
        assert one.page.locator(".heat a").count() == 11  # host-99, and host-990 to host-999
        there.open(f"/vms/{wide}")
        assert one.page.locator("[aria-label='Reasons of the other hosts'] tbody tr").count() == 1
        assert "1,000" in one.page.inner_text("[aria-label='Reasons of the other hosts'] tbody")
        one.page.goto("about:blank")
