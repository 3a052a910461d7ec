"""One service and one browser for all tests of a module; every test has windows of its own.

Not for longer: while playwright is open, its event loop counts as running, and other tests need loops of their own.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, sync_playwright

from tests.wait import GIVE_UP_S
from tests.web.service_in_thread import WebService, fill, run_service_in_thread


@dataclass
class Window:
    """A page with what it said and asked for."""

    page: Page
    service: WebService
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def open(self, path: str) -> int:
        """Go to a page of ours; return the status."""
        answer = self.page.goto(self.service.url + path)
        assert answer is not None
        return answer.status

    def log_in(self, key: str) -> None:
        self.open("/login")
        self.page.fill("#key", key)
        self.page.click("button.first")
        self.page.wait_for_url(lambda url: "/login" not in url)

    @property
    def path(self) -> str:
        return self.page.url.removeprefix(self.service.url)


OpenWindow = Callable[..., Window]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebService]:
    with run_service_in_thread(tmp_path_factory.mktemp("web")) as found:
        yield found


@pytest.fixture(scope="module")
def made(service: WebService) -> dict[str, str]:
    """VMs of a fleet of 20 hosts, by name."""
    return fill(service)


@pytest.fixture
def client(service: WebService) -> Iterator[httpx.Client]:
    """Give a client that is logged in, for pages that need no browser."""
    with httpx.Client(base_url=service.url, timeout=GIVE_UP_S) as found:
        answer = found.post("/login", data={"key": service.key}, headers={"Origin": service.url})
        assert answer.status_code == 303
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments, timeout=GIVE_UP_S * 1000)
        yield browser
        browser.close()


def patient_context(browser: Browser, **options: Any) -> BrowserContext:
    """Open a place for windows in which everything is waited for as long as on a busy machine."""
    context = browser.new_context(**options)
    context.set_default_timeout(GIVE_UP_S * 1000)
    return context


@pytest.fixture(scope="module")
def admin(browser: Browser, service: WebService, made: dict[str, str]) -> StorageState:
    """The cookie of an administrator who logged in once."""
    context = patient_context(browser)
    Window(context.new_page(), service).log_in(service.key)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="module")
def reader(browser: Browser, service: WebService, admin: StorageState) -> Iterator[Window]:
    """A window of the administrator for tests that only look: it keeps style and scripts, as browsers do."""
    context = patient_context(browser, storage_state=admin)
    found = Window(context.new_page(), service)
    listen(found)
    yield found
    context.close()


def listen(window: Window) -> None:
    """Keep what a page says and asks for."""
    page = window.page
    page.on("request", lambda request: window.asked.append(request.url))
    page.on("console", lambda one: window.said.append(one.text) if one.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: window.said.append(str(error)))


@pytest.fixture
def window(browser: Browser, service: WebService, admin: StorageState) -> Iterator[OpenWindow]:
    """Return what opens windows: of the administrator, of the owner of a key, or (an empty one) of no user."""
    opened: list[BrowserContext] = []

    def open_one(key: str | None = None, **options: object) -> Window:
        state = admin if key is None else None
        context = patient_context(browser, storage_state=state, **options)
        opened.append(context)
        found = Window(context.new_page(), service)
        listen(found)
        if key:
            found.log_in(key)
        return found

    yield open_one
    for context in opened:
        context.close()
