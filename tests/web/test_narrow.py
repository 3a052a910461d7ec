"""Pages in the narrow window of a phone: nothing is out of sight, and what is to be read has room."""

from __future__ import annotations

import pytest
from playwright.sync_api import ViewportSize

from tests.web.conftest import OpenWindow, Window

PHONE: ViewportSize = {"width": 400, "height": 800}
INSIDE = """entries => entries.every(one => {
    const box = one.getBoundingClientRect();
    return box.left >= 0 && box.right <= document.documentElement.clientWidth && box.width > 0;
})"""


@pytest.fixture
def phone(window: OpenWindow) -> Window:
    return window(viewport=PHONE)


def test_every_entry_of_the_menu_is_in_sight(phone: Window) -> None:
    phone.open("/projects")
    entries = phone.page.locator(".top nav a")
    assert entries.count() == 7
    assert entries.evaluate_all(INSIDE)


def test_what_happened_has_half_of_the_width_and_names_stay_whole(phone: Window) -> None:
    phone.open("/events")
    table = phone.page.locator("table.events")
    widths = table.locator("td.what").evaluate_all("cells => cells.map(one => one.getBoundingClientRect().width)")
    whole = table.evaluate("one => one.parentElement.clientWidth")
    assert widths
    assert min(widths) > whole * 0.45
    assert table.evaluate("one => one.offsetWidth <= one.parentElement.clientWidth")
    lines = "links => links.map(one => one.getClientRects().length)"
    assert set(table.locator("a", has_text="web-").evaluate_all(lines)) == {1}
