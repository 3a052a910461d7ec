"""Rejected requests are counted at once; those of known callers become events, but only a few."""

from __future__ import annotations

import asyncio

import httpx

from hostler.agent.messages import JOIN_PATH, REPORT_PATH
from hostler.control.access.principals import Principal
from hostler.control.access.secrets import make_secret, parse_secret
from hostler.control.access.sessions import cookie_name, open_session, seal, signing_secret
from hostler.control.api.requests.rejections import RejectedRequests, RejectionLog
from hostler.control.store.history import log
from tests.control.api.service_in_process import SMALL, InProcessService, fake_random, open_service

VM = {"name": "web", "spec": SMALL}
REPORT = {"boot": "b", "agent": "a", "epoch": 1, "sequence": 1}


async def written(service: InProcessService) -> list[dict[str, str]]:
    """Let refusals be written as at the end of a minute, or of the service; return all such events."""
    stopping = asyncio.Event()
    running = asyncio.ensure_future(service.context.refusals.run(service.database, stopping, service.said.append))
    await asyncio.sleep(0)
    stopping.set()
    await running
    events = (await service.ask("GET", "/v1/events", params={"limit": 500})).json()["items"]
    return [event for event in events if event["kind"] == "access.refused"]


async def counts(service: InProcessService) -> dict[str, float]:
    """Return the counts of refusals by their labels."""
    lines = (await service.ask("GET", "/metrics")).text.splitlines()
    found = [line.removeprefix("hostler_control_refusals_total") for line in lines if "refusals_total{" in line]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in found)}


async def test_rejected_changes_of_one_key_become_one_event_with_a_count() -> None:
    async with open_service() as service:
        viewer = await service.key("viewer")
        identity = (await service.as_key(viewer, "GET", "/v1/whoami")).json()["id"]
        before = await service.database.read(log.head)
        for _ in range(20):
            assert (await service.as_key(viewer, "POST", "/v1/vms", json=VM)).status_code == 403
        assert await service.database.read(log.head) == before
        [event] = await written(service)
        assert (event["actor"], event["subject"]) == (f"key:{identity}", identity)
        assert "refused 20 times: POST /v1/vms:" in event["text"]
        assert "role" in event["text"]
        assert (await counts(service))['{code="forbidden",door="key"}'] == 20
        assert any("refused key:" in line and "20 times" in line for line in service.said)
        assert len(await written(service)) == 1, "what is written is not written again"


async def test_a_key_that_was_revoked_is_known_and_a_stranger_is_only_counted() -> None:
    async with open_service() as service:
        secret = await service.key("editor")
        identity = (await service.as_key(secret, "GET", "/v1/whoami")).json()["id"]
        await service.ask("DELETE", f"/v1/keys/{identity}")
        stranger = make_secret("key", fake_random).text
        for key in (secret, stranger, ""):
            assert (await service.as_key(key, "POST", "/v1/vms", json=VM)).status_code == 401
        [event] = await written(service)
        assert event["actor"] == f"key:{identity}"
        assert (await counts(service))['{code="unauthenticated",door="key"}'] == 3


async def test_a_refused_look_is_counted_and_no_event() -> None:
    async with open_service() as service:
        viewer = await service.key("viewer", project="default")
        assert (await service.as_key(viewer, "GET", "/v1/keys")).status_code == 403
        assert await written(service) == []
        assert (await counts(service))['{code="forbidden",door="key"}'] == 1


async def test_refused_agents_are_counted_by_what_was_wrong() -> None:
    async with open_service() as service:
        unknown = make_secret("credential", fake_random).text
        assert (await service.as_key(unknown, "POST", REPORT_PATH, json=REPORT)).status_code == 401
        assert (await service.as_key(service.secret, "POST", REPORT_PATH, json=REPORT)).status_code == 401
        assert await written(service) == []
        assert (await counts(service))['{code="unauthenticated",door="agent"}'] == 2


def test_what_is_reported_apart_between_two_writes_has_an_end() -> None:
    refusals = RejectionLog()
    for number in range(5000):
        refusals.gather(RejectedRequests(actor=f"key:{number}", code="forbidden", text="", request="", at_ns=1))
    assert len(refusals.take()) == 1000
    assert refusals.take() == []


async def test_an_agent_of_a_deleted_host_is_known_by_the_id_of_its_credential() -> None:
    async with open_service() as service:
        token = (await service.ask("POST", "/v1/tokens", json={})).json()["secret"]
        joined = await service.client.post(JOIN_PATH, json={"token": token, "name": "north"})
        credential = joined.json()["credential"]
        assert (await service.ask("DELETE", "/v1/hosts/north", params={"confirm": "north"})).status_code == 204
        for _ in range(3):
            answer = await service.as_key(credential, "POST", REPORT_PATH, json=REPORT)
            assert (answer.status_code, answer.json()["code"]) == (410, "host_deleted")
        [event] = await written(service)
        assert event["actor"] == f"credential:{parse_secret(credential, 'credential').id}"
        assert "refused 3 times" in event["text"]
        assert credential not in str(event)
        assert (await counts(service))['{code="host_deleted",door="agent"}'] == 3


async def test_the_event_of_several_refusals_says_what_each_was() -> None:
    async with open_service() as service:
        viewer = await service.key("viewer")
        for path, body in (("/v1/projects", {"name": "x"}), ("/v1/vms", VM), ("/v1/vms", VM)):
            assert (await service.as_key(viewer, "POST", path, json=body)).status_code == 403
        [event] = await written(service)
        assert event["text"].startswith("refused 3 times: POST /v1/projects: ")
        assert "; POST /v1/vms: " in event["text"]
        assert "(once)" in event["text"]
        assert event["text"].endswith("(2 times)")


def test_deeds_beyond_the_first_few_are_only_counted() -> None:
    refusals = RejectionLog()
    for number in range(100):
        refusals.gather(RejectedRequests(actor="key:k", code="forbidden", text=f"deed-{number}", request="", at_ns=1))
    [one] = refusals.take()
    assert one.summary().startswith("100 times: deed-0 (once); deed-1 (once); ")
    assert one.summary().endswith("deed-9 (once); and 90 of other kinds")


async def test_a_change_by_a_good_session_that_no_page_of_ours_sent_is_an_event() -> None:
    async with open_service() as service:
        key = await service.key("editor")
        identity = (await service.as_key(key, "GET", "/v1/whoami")).json()["id"]
        now_ns, context = service.context.clock(), service.context
        context.signing = await service.database.write(lambda one: signing_secret(one, now_ns, fake_random))
        session = open_session(Principal(id=identity, role="editor"), now_ns=now_ns, random=fake_random)
        cookie = f"{cookie_name(is_secure=False)}={seal(session, context.signing)}"
        transport = httpx.ASGITransport(app=service.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as browser:
            headers = {"Cookie": cookie, "Origin": "https://evil.example"}
            answer = await browser.post("/v1/vms", json=VM, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "forged_request")
        [event] = await written(service)
        assert event["actor"] == f"session:{identity}"
        assert "POST /v1/vms" in event["text"]
