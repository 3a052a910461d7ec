"""Unknown addresses: a page with the menu for browsers, JSON for programs."""

from __future__ import annotations

import httpx
import pytest

from tests.web.service_in_thread import WebService

BROWSER = {"Accept": "text/html"}


@pytest.mark.parametrize("path", ["/vmz", "/hosts/host-01/nothing", "/vms/nobody"])
def test_unknown_page_has_navigation(client: httpx.Client, path: str) -> None:
    answer = client.get(path, headers=BROWSER)
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert '<nav aria-label="Pages">' in answer.text
    assert 'href="/vms"' in answer.text
    assert "Not found" in answer.text
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


def test_unknown_page_asks_strangers_to_log_in(service: WebService) -> None:
    answer = httpx.get(f"{service.url}/vmz", headers=BROWSER)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fvmz")


@pytest.mark.parametrize(("path", "accept"), [("/vmz", "application/json"), ("/v1/vmz", "text/html"), ("/vmz", "*/*")])
def test_programs_get_a_problem_for_an_unknown_address(service: WebService, path: str, accept: str) -> None:
    answer = httpx.get(service.url + path, headers={"Accept": accept})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_wrong_method_stays_a_problem(client: httpx.Client) -> None:
    answer = client.get("/logout", headers=BROWSER)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
