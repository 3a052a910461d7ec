"""Who gets in, who stays out, and that no other site can act for a user who is logged in."""

from __future__ import annotations

from urllib.parse import urlencode

import httpx
import pytest

from tests.wait import GIVE_UP_S
from tests.web.conftest import OpenWindow
from tests.web.service_in_thread import WebService


def cookies_of(client: httpx.Client, service: WebService) -> None:
    """Log in without a browser."""
    answer = client.post(f"{service.url}/login", data={"key": service.key}, headers={"Origin": service.url})
    assert answer.status_code == 303


def test_visitor_without_login_gives_a_key_and_returns_to_the_page(window: OpenWindow) -> None:
    one = window(key="")
    one.open("/vms?state=running")
    assert one.path.startswith("/login?next=")
    one.page.fill("#key", one.service.key)
    one.page.keyboard.press("Enter")
    one.page.wait_for_url("**/vms?state=running")
    assert one.said == []


def test_the_door_says_where_the_first_key_is_to_be_found(window: OpenWindow) -> None:
    one = window(key="")
    one.open("/login")
    hint = one.page.inner_text("#key-hint")
    assert "--admin-key-file" in hint
    assert "was printed when the service started for the first time" in hint


def test_after_logging_out_nothing_is_shown(window: OpenWindow) -> None:
    one = window()
    one.open("/")
    one.page.click("text=Log out")
    one.page.wait_for_url("**/login")
    one.open("/vms")
    assert one.path.startswith("/login")


def test_a_login_leaves_a_trace(window: OpenWindow, service: WebService) -> None:
    one = window(key=service.key)
    one.open("/events")
    assert one.page.locator("tr", has_text="logged in with key first administrator").count() >= 1


def test_a_wrong_key_opens_nothing(window: OpenWindow) -> None:
    one = window(key="")
    one.open("/login")
    one.page.fill("#key", "hk_nonsense")
    one.page.click("button.first")
    assert "opens nothing" in one.page.inner_text("[role=alert]")
    assert "hk_nonsense" not in one.page.content()
    assert one.page.context.cookies() == []


def test_the_cookie_is_for_our_pages_only_and_holds_no_key(window: OpenWindow) -> None:
    one = window()
    (cookie,) = one.page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert one.service.key not in cookie["value"]


def test_with_tls_the_cookie_is_for_this_very_host_and_for_tls_only(service: WebService) -> None:
    async def log_in(origin: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=service.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://127.0.0.1") as client:
            return await client.post("/login", data={"key": service.key}, headers={"Origin": origin})

    cookie = service.do(log_in("https://127.0.0.1")).headers["set-cookie"]
    assert cookie.startswith("__Host-hostler=")
    assert "; Secure" in cookie
    assert service.do(log_in("http://127.0.0.1")).status_code == 403  # a page that came without TLS is another site


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"]
)
def test_a_login_sends_nobody_elsewhere(target: str, service: WebService) -> None:
    with httpx.Client(timeout=GIVE_UP_S) as client:
        answer = client.post(
            f"{service.url}/login", data={"key": service.key, "next": target}, headers={"Origin": service.url}
        )
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"


def test_another_site_cannot_log_a_browser_in(service: WebService) -> None:
    with httpx.Client(timeout=GIVE_UP_S) as client:
        for headers in ({"Origin": "https://evil.example"}, {}, {"Referer": "http://evil.example/x"}):
            answer = client.post(f"{service.url}/login", data={"key": service.key}, headers=headers)
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"Origin": "https://evil.example"}, "right"),
        ({}, "right"),
        ({"Origin": "us"}, ""),
        ({"Origin": "us"}, "AAAA"),
    ],
)
def test_a_change_that_no_page_of_ours_sent_is_refused(
    headers: dict[str, str], token: str, window: OpenWindow, service: WebService, made: dict[str, str]
) -> None:
    one = window()
    one.open("/projects")
    identity = made["web-02"]
    right = one.page.get_attribute("form[action='/logout'] input[name=token]", "value")
    sent = {name: service.url if value == "us" else value for name, value in headers.items()}
    (cookie,) = one.page.context.cookies()
    body = urlencode({"token": right if token == "right" else token})
    with httpx.Client(timeout=GIVE_UP_S, cookies={cookie["name"]: cookie["value"]}) as client:
        answer = client.post(
            f"{service.url}/vms/{identity}/stop",
            content=body,
            headers={"Content-Type": "application/x-www-form-urlencoded", **sent},
        )
    assert answer.status_code == 403
    assert "forged_request" in answer.text
    assert service.vm(identity).vm.power == "running"


def test_the_token_of_one_session_is_nothing_in_another(
    service: WebService, made: dict[str, str], window: OpenWindow
) -> None:
    one = window()
    one.open("/projects")
    token = one.page.get_attribute("form[action='/logout'] input[name=token]", "value")
    with httpx.Client(timeout=GIVE_UP_S) as client:
        cookies_of(client, service)
        answer = client.post(
            f"{service.url}/vms/{made['web-02']}/stop", data={"token": token}, headers={"Origin": service.url}
        )
    assert answer.status_code == 403


def test_what_is_too_large_or_no_form_is_refused(service: WebService) -> None:
    with httpx.Client(timeout=GIVE_UP_S) as client:
        cookies_of(client, service)
        large = client.post(f"{service.url}/logout", data={"token": "x" * (1 << 20)}, headers={"Origin": service.url})
        other = client.post(f"{service.url}/logout", json={"token": "x"}, headers={"Origin": service.url})
    assert (large.status_code, other.status_code) == (413, 400)


def test_a_key_of_one_project_sees_its_vms_only(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    one = window(key=service.make_key("viewer", "shop"))
    assert one.path == "/vms"
    assert one.page.locator("nav a", has_text="Fleet").count() == 0
    assert one.page.locator("tbody tr").count() == 6
    assert one.page.locator("a[href^='/hosts/']").count() == 0
    assert one.open(f"/vms/{made['web-01']}") == 404
    assert one.open("/hosts/host-01") == 403
    assert one.open("/vms?project=default") == 403
    assert one.open("/events?project=default") == 403
    assert one.open("/projects") == 200
    assert one.page.locator("section").count() == 1
    one.open(f"/vms/{made['shop-1']}")
    assert one.page.locator(".actions").count() == 0


def test_user_without_permission_learns_why(window: OpenWindow, service: WebService, made: dict[str, str]) -> None:
    one = window(key=service.make_key("operator"))
    one.open(f"/vms/{made['web-01']}")
    assert one.page.locator("text=Restart").count() == 1
    assert one.page.locator("text=Delete").count() == 0
    assert one.open(f"/vms/{made['web-01']}/delete") == 403
    assert "needs the role editor" in one.page.inner_text("[role=alert]")


def test_forbidden_changes_of_a_session_are_counted_for_the_audit(service: WebService) -> None:
    asked = {"name": "watcher", "role": "viewer", "project": ""}
    admin = {"Authorization": f"Bearer {service.key}"}
    made = httpx.post(f"{service.url}/v1/keys", json=asked, headers=admin, timeout=GIVE_UP_S).json()
    service.context.refusals.take()
    with httpx.Client(timeout=GIVE_UP_S, headers={"Origin": service.url}) as client:
        assert client.post(f"{service.url}/login", data={"key": made["secret"]}).status_code == 303
        token = client.get(f"{service.url}/vms").text.split('name="token" value="')[1].split('"')[0]
        for form in ({"token": token, "name": "web", "cpu": "1", "memory": "1Gi"}, {"name": "forged"}):
            assert client.post(f"{service.url}/vms/new", data=form).status_code == 403
    told = {one.code: one for one in service.context.refusals.take()}
    assert set(told) == {"forbidden", "forged_request"}
    assert {one.actor.partition(":")[0] for one in told.values()} == {"session"}
    assert told["forbidden"].text.startswith("POST /vms/new: ")
    metrics = httpx.get(f"{service.url}/metrics", headers=admin, timeout=GIVE_UP_S).text
    assert 'hostler_control_refusals_total{code="forbidden",door="session"}' in metrics
