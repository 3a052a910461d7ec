"""Keys that a restore disabled: the first page names them to those who may confirm them, and a page confirms them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import msgspec
import pytest
from playwright.sync_api import Browser

from hostler.control.access.keys import KeyBody
from hostler.control.access.secrets import parse_secret
from hostler.control.store import Connection
from hostler.control.store.rows import keys
from tests.wait import GIVE_UP_S
from tests.web.conftest import Window, patient_context
from tests.web.service_in_thread import WebService, run_service_in_thread


@pytest.fixture
def service(tmp_path) -> Iterator[WebService]:
    """A service that knows nothing of other tests."""
    with run_service_in_thread(tmp_path) as found:
        yield found


def test_first_page_names_unconfirmed_keys(service: WebService, client: httpx.Client) -> None:
    """The notice comes with the key and goes when it is confirmed."""
    identity = parse_secret(service.make_key("editor"), "key").id
    assert "disabled since a restore" not in client.get("/").text
    set_body(service, identity, KeyBody(unconfirmed_ns=1))
    page = client.get("/").text
    assert "1 API key disabled since a restore" in page
    assert f"<code>{identity}</code>" in page
    assert '<a href="/keys">confirmed</a>' in page
    set_body(service, identity, KeyBody())
    assert "disabled since a restore" not in client.get("/").text


def set_body(service: WebService, identity: str, body: KeyBody) -> None:
    def work(connection: Connection) -> None:
        row = keys.find_key(connection, identity)
        assert row is not None
        keys.save_body(connection, row, msgspec.json.encode(body))

    service.write(work)


def disabled_key(service: WebService) -> tuple[str, str]:
    """Return the secret and the id of a key that a restore disabled."""
    secret = service.make_key("editor")
    identity = parse_secret(secret, "key").id
    set_body(service, identity, KeyBody(unconfirmed_ns=1))
    return secret, identity


def is_accepted(service: WebService, secret: str) -> bool:
    answer = httpx.get(f"{service.url}/v1/vms", headers={"Authorization": f"Bearer {secret}"}, timeout=GIVE_UP_S)
    return answer.status_code == 200


def token_of(page: str) -> str:
    return page.split('name="token" value="')[1].split('"')[0]


@contextmanager
def visitor(service: WebService, key: str) -> Iterator[httpx.Client]:
    """Give a client that is logged in by a key."""
    with httpx.Client(base_url=service.url, timeout=GIVE_UP_S) as client:
        assert client.post("/login", data={"key": key}, headers={"Origin": service.url}).status_code == 303
        yield client


@pytest.mark.parametrize("has_script", [True, False])
def test_admin_confirms_a_key_by_its_button(has_script: bool, service: WebService, browser: Browser) -> None:
    secret, identity = disabled_key(service)
    assert not is_accepted(service, secret)
    with patient_context(browser, java_script_enabled=has_script) as context:
        one = Window(context.new_page(), service)
        one.log_in(service.key)
        one.page.click("text=confirmed")
        one.page.wait_for_url("**/keys")
        one.page.click(f"#ask-confirm-{identity}")
        one.page.wait_for_selector("dialog[open]" if has_script else "#question")
        assert not is_accepted(service, secret), "it was only asked"
        one.page.click("#question button")
        one.page.wait_for_url("**/keys?done=key-confirm")
        assert one.page.inner_text("[role=status] >> text=The key is accepted again.")
        assert "No API key waits for confirmation" in one.page.inner_text("main")
    assert is_accepted(service, secret)


def test_confirmation_by_page_is_an_event(service: WebService, client: httpx.Client) -> None:
    _, identity = disabled_key(service)
    question = client.get(f"/keys/{identity}/confirm").text
    assert "Confirm it only if it was not revoked" in question
    form = {"token": token_of(question)}
    answer = client.post(f"/keys/{identity}/confirm", data=form, headers={"Origin": service.url})
    assert (answer.status_code, answer.headers["location"]) == (303, "/keys?done=key-confirm")
    events = client.get("/v1/events").json()["items"]
    assert [one["subject"] for one in events if one["kind"] == "key.confirm"] == [identity]
    assert f"key {identity} (editor): editor in all projects" in client.get("/events").text


@pytest.mark.parametrize(
    ("origin", "token"), [("us", ""), ("us", "AAAA"), ("https://evil.example", "right"), ("", "right")]
)
def test_forged_confirmation_changes_nothing(
    origin: str, token: str, service: WebService, client: httpx.Client
) -> None:
    secret, identity = disabled_key(service)
    right = token_of(client.get(f"/keys/{identity}/confirm").text)
    headers = {"Origin": service.url if origin == "us" else origin} if origin else {}
    form = {"token": right if token == "right" else token}
    answer = client.post(f"/keys/{identity}/confirm", data=form, headers=headers)
    assert answer.status_code == 403, answer.text
    assert not is_accepted(service, secret)


@pytest.mark.parametrize(("role", "project"), [("viewer", ""), ("operator", ""), ("editor", ""), ("admin", "default")])
def test_keys_are_confirmed_by_admins_of_all_projects_only(role: str, project: str, service: WebService) -> None:
    secret, identity = disabled_key(service)
    with visitor(service, service.make_key(role, project)) as one:
        assert "disabled since a restore" not in one.get("/", follow_redirects=True).text
        assert [one.get(path).status_code for path in ("/keys", f"/keys/{identity}/confirm")] == [403, 403]
        form = {"token": token_of(one.get("/vms").text)}
        answer = one.post(f"/keys/{identity}/confirm", data=form, headers={"Origin": service.url})
        assert answer.status_code == 403, answer.text
    assert not is_accepted(service, secret)


def test_key_that_is_revoked_is_not_confirmed(service: WebService, client: httpx.Client) -> None:
    """The list is old: the key was revoked meanwhile."""
    secret, identity = disabled_key(service)
    form = {"token": token_of(client.get(f"/keys/{identity}/confirm").text)}
    client.delete(f"/v1/keys/{identity}", headers={"Authorization": f"Bearer {service.key}"}).raise_for_status()
    answer = client.post(f"/keys/{identity}/confirm", data=form, headers={"Origin": service.url})
    assert (answer.status_code, "is revoked or expired" in answer.text) == (400, True), answer.text
    assert not is_accepted(service, secret)
