"""A page whose server is gone says so, and how old it is; it goes on by itself when the server is back."""

from __future__ import annotations

import time
from pathlib import Path

from playwright.sync_api import Route

from tests.wait import wait_until
from tests.web.conftest import OpenWindow, Window
from tests.web.service_in_thread import WebService, run_service_in_thread

KEPT = """window.EventSource = class extends EventSource {
    constructor(url) { super(url); window.kept = this; }
    addEventListener(name, handler) { if (name !== "beat" && name !== "news") super.addEventListener(name, handler); }
};"""  # a stream that the test can end
DEAF = """window.EventSource = class extends EventSource {
    constructor(url) { super(window.isDeaf ? "/nowhere" : url); window.isDeaf = true; }
    addEventListener(name, handler) { if (name === "open") super.addEventListener(name, handler); }
};"""  # a stream on which nothing comes after it was opened


def test_banner_says_how_old_the_page_is_when_the_server_is_gone(tmp_path: Path, window: OpenWindow) -> None:
    one = window(key="")
    banner = one.page.locator("#stale")
    with run_service_in_thread(tmp_path) as other:
        Window(one.page, other).log_in(other.key)
        one.page.wait_for_selector("#live.on")
        assert not banner.is_visible()
    banner.wait_for(state="visible")
    assert "The server does not answer. This page is " in banner.inner_text()
    age = one.page.locator("#stale-age")
    first = age.inner_text()
    assert first.endswith(" s old")
    wait_until(lambda: age.inner_text() != first)
    assert one.page.locator("#stale [role=alert]").inner_text() == "The server does not answer."


def test_banner_goes_when_the_server_answers_again(window: OpenWindow) -> None:
    one = window()
    page = one.page
    page.add_init_script(KEPT)
    one.open("/")
    page.wait_for_selector("#live.on")
    page.evaluate("window.kept.dispatchEvent(new Event('error'))")
    page.locator("#stale").wait_for(state="visible")
    page.evaluate("window.kept.dispatchEvent(new Event('open'))")
    page.locator("#stale").wait_for(state="hidden")


def test_banner_stays_until_a_failed_refresh_succeeds(window: OpenWindow, service: WebService) -> None:
    one = window()
    page = one.page
    one.open("/projects")
    page.wait_for_selector("#live.on")

    def fail(route: Route) -> None:
        route.fulfill(status=502, body="bad gateway")

    page.route("**/projects", fail)
    service.create(f"news-{time.time_ns()}", cpu="1", memory="1Gi")
    page.locator("#stale").wait_for(state="visible")
    page.unroute("**/projects", fail)
    page.locator("#stale").wait_for(state="hidden")


def test_silence_of_the_stream_counts_as_a_lost_server(window: OpenWindow) -> None:
    one = window()
    page = one.page
    page.clock.install()
    page.add_init_script(DEAF)
    one.open("/")
    page.wait_for_selector("#live.on")
    page.clock.run_for(10_000)
    assert not page.locator("#stale").is_visible()
    page.clock.run_for(20_000)
    page.locator("#stale").wait_for(state="visible")


def test_page_without_a_stream_has_no_banner(window: OpenWindow) -> None:
    one = window()
    one.open("/keys")
    assert not one.page.locator("#stale").is_visible()
