"""Who may do what over REST: keys, roles, projects, sessions' cookies, names of the service, and how often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.control.access.limits import Rate, RateLimits
from hostler.control.access.secrets import make_secret
from hostler.control.access.sessions import csrf_token, open_session, seal
from hostler.control.api.app import ALL_ROUTES
from hostler.control.store.history import log
from tests.control.api.service_in_process import InProcessService, fake_random, open_service

VM: dict[str, Any] = {"name": "web", "spec": {"cpu": "1", "memory": "1Gi"}}


async def test_every_route_but_a_few_needs_a_key() -> None:
    async with open_service() as service:
        for route in ALL_ROUTES:
            path = route.path.replace("{", "").replace("}", "")
            answer = await service.client.request(route.method, path, headers={"Authorization": ""})
            if route.door == "none":
                assert answer.status_code != 401, route.path
            elif route.door == "key":
                assert answer.status_code == 401, route.path
                assert answer.json()["code"] == "unauthenticated"
                assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_revoked_key_opens_nothing_from_that_moment_on() -> None:
    async with open_service() as service:
        secret = await service.key("admin")
        identity = (await service.as_key(secret, "GET", "/v1/whoami")).json()["id"]
        revoked = await service.ask("DELETE", f"/v1/keys/{identity}")
        assert (revoked.status_code, revoked.json()["revoked_at"] is not None) == (200, True)
        assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 401


async def test_keys_say_when_they_were_used_last() -> None:
    async with open_service() as service:
        secret = await service.key("viewer")
        idle = await service.key("operator")
        await service.as_key(secret, "GET", "/v1/whoami")
        shown = (await service.ask("GET", "/v1/keys")).json()["items"]
        assert {one["name"]: one["used_at"] is not None for one in shown} == {
            "first administrator": True,
            "viewer": True,
            "operator": False,
        }
        assert idle


async def test_mistyped_invented_revoked_and_expired_keys_open_nothing() -> None:
    async with open_service() as service:
        revoked = await service.ask("POST", "/v1/keys", json={"name": "k", "role": "admin"})
        identity, secret = revoked.json()["key"]["id"], revoked.json()["secret"]
        assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 200
        assert (await service.ask("DELETE", f"/v1/keys/{identity}")).status_code == 200
        invented = make_secret("key", fake_random).text
        short = await service.key("viewer", ttl_s=60)
        now = service.context.clock()
        service.context.clock = lambda: now + 61 * 10**9
        for bad in (secret, invented, service.secret[:-1], "", "hk_", short, make_secret("token", fake_random).text):
            answer = await service.as_key(bad, "GET", "/v1/whoami")
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), bad
            assert bad == "" or bad not in answer.text


TABLE: list[tuple[str, str, Any, str]] = [
    # what is asked, and the least role that may
    ("GET", "/v1/vms", None, "viewer"),
    ("POST", "/v1/plan", {"vms": [{"spec": VM["spec"]}]}, "viewer"),
    ("POST", "/v1/candidates", {"spec": VM["spec"]}, "viewer"),
    ("GET", "/v1/queue", None, "viewer"),
    ("GET", "/v1/events", None, "viewer"),
    ("GET", "/v1/operations", None, "viewer"),
    ("GET", "/v1/hosts", None, "viewer"),
    ("GET", "/metrics", None, "viewer"),
    ("POST", "/v1/hosts/a/cordon", None, "operator"),
    ("POST", "/v1/vms/{vm}/stop", None, "operator"),
    ("PATCH", "/v1/vms/{vm}", {"protected": False}, "editor"),
    ("POST", "/v1/vms", {**VM, "name": "{role}"}, "editor"),
    ("POST", "/v1/gangs", {"name": "{role}"}, "editor"),
    ("POST", "/v1/reservations", {"name": "{role}", "amounts": {"cpu": "1m"}}, "editor"),
    ("POST", "/v1/projects", {"name": "{role}"}, "admin"),
    ("GET", "/v1/keys", None, "admin"),
    ("POST", "/v1/keys", {"name": "k", "role": "viewer"}, "admin"),
    ("POST", "/v1/tokens", None, "admin"),
    ("PATCH", "/v1/hosts/a", {"labels": {}}, "admin"),
    ("POST", "/v1/hosts/a/force-offline", {"confirm": "a"}, "admin"),
]
ROLES = ("viewer", "operator", "editor", "admin")


async def test_roles_may_what_the_table_says_and_nothing_more() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = (await service.create("web")).json()["vm"]["id"]
        for role in ROLES:
            secret = await service.key(role)
            for method, path, body, least in TABLE:
                more = {} if body is None else {"json": _filled(body, role)}
                answer = await service.as_key(secret, method, path.replace("{vm}", vm), **more)
                if ROLES.index(role) < ROLES.index(least):
                    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (role, path)
                else:
                    assert answer.status_code < 300, (role, path, answer.text)


def _filled(body: dict[str, Any], role: str) -> dict[str, Any]:
    return {key: role if value == "{role}" else value for key, value in body.items()}


async def test_a_key_for_one_project_knows_nothing_of_others() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await service.ask("POST", "/v1/projects", json={"name": "red"})
        theirs = (await service.create("theirs")).json()["vm"]["id"]
        operation = (await service.ask("GET", "/v1/operations")).json()["items"][0]["id"]
        red = await service.key("admin", "red")
        mine = await service.as_key(red, "POST", "/v1/vms", json={**VM, "project": "red"})
        assert mine.status_code == 202
        await service.caught_up()
        before = await service.database.read(log.head)
        for method, path in (
            ("GET", f"/v1/vms/{theirs}"),
            ("POST", f"/v1/vms/{theirs}/stop"),
            ("DELETE", f"/v1/vms/{theirs}"),
            ("GET", f"/v1/vms/{theirs}/decision"),
            ("GET", f"/v1/operations/{operation}"),
            ("GET", "/v1/projects/default"),
        ):
            answer = await service.as_key(red, method, path)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
        for path in ("/v1/vms?project=default", "/v1/events?project=default", "/v1/hosts", "/v1/tokens"):
            assert (await service.as_key(red, "GET", path)).status_code == 403, path
        shown = (await service.as_key(red, "GET", "/v1/vms")).json()["items"]
        assert [one["project"] for one in shown] == ["red"]
        events = (await service.as_key(red, "GET", "/v1/events")).json()["items"]
        assert {event["project"] for event in events} == {"red"}
        assert (await service.as_key(red, "POST", "/v1/vms", json=VM)).status_code == 403
        stronger = {"name": "k", "role": "admin"}
        assert (await service.as_key(red, "POST", "/v1/keys", json=stronger)).status_code == 403
        await service.caught_up()
        changed = await service.database.read(lambda connection: log.read_after(connection, before, 100))
        assert {entry.project for entry in changed} <= {"red", ""}


async def test_a_request_for_another_name_is_misdirected() -> None:
    async with open_service() as service:
        answer = await service.ask("GET", "/v1/vms", headers={"Host": "evil.example"})
        assert (answer.status_code, answer.json()["code"]) == (421, "host_not_allowed")
        assert "--name" in answer.json()["hint"]
        assert (await service.ask("GET", "/v1/vms", headers={"Host": "localhost:1234"})).status_code == 200


async def test_probes_accept_any_host_name_and_scrapes_need_a_key() -> None:
    async with open_service() as service:
        by_address = {"Host": "10.0.0.7:8470"}
        for path in ("/livez", "/readyz", "/metrics"):
            assert (await service.ask("GET", path, headers=by_address)).status_code == 200, path
        assert (await service.as_key("nobody", "GET", "/metrics", headers=by_address)).status_code == 401


async def test_too_many_requests_are_told_when_to_come_again() -> None:
    limits = RateLimits(changes=Rate(2), reads=Rate(3), failures=None)
    async with open_service(limits=limits) as service:
        now = service.context.clock()
        service.context.clock = lambda: now
        creates = [await service.create(f"vm-{n}") for n in range(3)]
        assert [one.status_code for one in creates] == [202, 202, 429]
        assert creates[2].json()["code"] == "too_many_requests"
        assert 1 <= int(creates[2].headers["retry-after"]) <= 30
        reads = [await service.ask("GET", "/v1/vms") for _ in range(4)]
        assert [one.status_code for one in reads] == [200, 200, 200, 429]
        assert len(reads[0].json()["items"]) == 2


async def test_keys_of_a_project_share_its_changes() -> None:
    """A body of more than 4 KiB counts as several; a key of all projects takes nothing from it."""

    async with open_service(limits=RateLimits(project_changes=Rate(4), failures=None)) as service:
        now = service.context.clock()
        service.context.clock = lambda: now
        await service.ask("POST", "/v1/projects", json={"name": "loud"})
        one, two = [await service.key("editor", "loud") for _ in range(2)]

        async def create(key: str, name: str, **more: str) -> int:
            spec = {"cpu": "1", "memory": "1Gi", "labels": more}
            body = {"name": name, "project": "loud", "spec": spec}
            return (await service.as_key(key, "POST", "/v1/vms", json=body)).status_code

        large = {f"label-{number}": "x" * 60 for number in range(64)}  # a little more than 4 KiB
        assert [await create(one, "a"), await create(two, "b", **large)] == [202, 202]
        assert [await create(two, "c", **large), await create(one, "d")] == [429, 429]
        assert (await service.create("e", project="loud")).status_code == 202


@pytest.mark.parametrize("kind", ["application/json", "text/plain"])
@pytest.mark.parametrize("start", [b"{", b'{"zzz": "'], ids=["no JSON", "no such field"])
async def test_rejected_body_counts_by_its_size(start: bytes, kind: str) -> None:
    """Bodies that were rejected counted as one change each, so that a megabyte cost its project no more than a byte."""

    async with open_service(limits=RateLimits(project_changes=Rate(4), failures=None)) as service:
        now = service.context.clock()
        service.context.clock = lambda: now
        await service.ask("POST", "/v1/projects", json={"name": "loud"})
        key = await service.key("editor", "loud")

        async def send() -> int:
            body = start + b"x" * 4096 + (b'"}' if start != b"{" else b"")
            headers = {"Content-Type": kind}
            return (await service.as_key(key, "POST", "/v1/vms", content=body, headers=headers)).status_code

        rejected = 400 if kind == "application/json" else 415
        assert [await send() for _ in range(3)] == [rejected, rejected, 429]


async def test_who_fails_again_and_again_is_locked_out_for_a_while() -> None:
    async with open_service(limits=RateLimits(failures=Rate(3))) as service:
        now = service.context.clock()
        service.context.clock = lambda: now
        bad = make_secret("key", fake_random).text
        answers = [await service.as_key(bad, "GET", "/v1/vms") for _ in range(6)]
        assert [one.status_code for one in answers][:3] == [401, 401, 401]
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1


async def _cookie(service: InProcessService) -> tuple[dict[str, str], str]:
    context = service.context
    context.signing = b"s" * 32
    now_ns = context.clock()
    principal = await context.authenticator.key(service.secret, "", now_ns)
    session = open_session(principal, now_ns=now_ns, random=fake_random)
    return {"hostler": seal(session, context.signing)}, csrf_token(session, context.signing)


async def test_session_reads_by_cookie_and_changes_need_csrf_token() -> None:
    async with open_service() as service:
        cookies, token = await _cookie(service)
        del service.client.headers["Authorization"]
        cookie = {"Cookie": f"hostler={cookies['hostler']}"}
        whoami = await service.ask("GET", "/v1/whoami", headers=cookie)
        assert whoami.json()["kind"] == "session"
        forged = await service.ask("POST", "/v1/vms", json=VM, headers=cookie)
        assert (forged.status_code, forged.json()["code"]) == (403, "forged_request")
        page = {**cookie, "Origin": "http://localhost", "X-Csrf-Token": token}
        assert (await service.ask("POST", "/v1/vms", json=VM, headers=page)).status_code == 202
        elsewhere = {**page, "Origin": "http://evil.example"}
        assert (await service.ask("POST", "/v1/vms", json=VM, headers=elsewhere)).status_code == 403


async def test_rotating_ones_own_key_ends_the_old_one() -> None:
    async with open_service() as service:
        secret = await service.key("viewer")
        identity = (await service.as_key(secret, "GET", "/v1/whoami")).json()["id"]
        made = await service.as_key(secret, "POST", f"/v1/keys/{identity}/rotate")
        assert made.status_code == 201
        assert (await service.as_key(secret, "GET", "/v1/whoami")).status_code == 401
        fresh = await service.as_key(made.json()["secret"], "GET", "/v1/whoami")
        assert fresh.json()["role"] == "viewer"


async def test_no_secret_is_in_the_log_nor_in_what_is_kept_for_repetitions() -> None:
    async with open_service() as service:
        secrets = [await service.key("viewer"), (await service.ask("POST", "/v1/tokens")).json()["secret"]]
        await service.ask("GET", "/v1/vms", headers={"Authorization": f"Bearer {secrets[0][:-2]}xx"})

        def everything(connection: Any) -> str:
            rows = [connection.exec_driver_sql(f"SELECT * FROM {name}").all() for name in TABLES]
            return repr(rows)

        kept = await service.database.read(everything)
        for secret in (*secrets, service.secret):
            assert secret not in kept
            assert secret[25:60] not in "".join(service.said)


TABLES = ("log", "idempotency_keys", "operations", "api_keys", "join_tokens")


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "drop\ttable"])
def test_a_request_id_that_is_none_is_replaced(given: str) -> None:
    async def scenario() -> None:
        async with open_service() as service:
            answer = await service.ask("GET", "/livez", headers={"X-Request-Id": given})
            assert answer.headers["x-request-id"] not in ("", given)
            kept = await service.ask("GET", "/livez", headers={"X-Request-Id": "my-id.1"})
            assert kept.headers["x-request-id"] == "my-id.1"

    asyncio.run(scenario())


async def test_unauthenticated_answer_names_the_missing_header() -> None:
    async with open_service() as service:
        for headers in ({"Authorization": ""}, {"Authorization": "Basic eDp5"}):
            answer = await service.client.get("/v1/vms", headers=headers)
            assert answer.status_code == 401
            told = answer.json()
            assert told["detail"] == "an API key is needed: the header Authorization is missing or holds no key"
            assert told["hint"] == "send the header Authorization with the word Bearer, a space and an API key"
