"""What can never be right: each request gets its status and code, and changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hostler.control.settings import ControlSettings
from hostler.control.store.history import log
from tests.control.api.service_in_process import InProcessService, open_service

GOOD: dict[str, Any] = {"name": "web", "spec": {"cpu": "1", "memory": "1Gi"}}


def vm(**changes: Any) -> dict[str, Any]:
    """Return a body that is good but for these."""
    return {**GOOD, **changes}


def spec(**changes: Any) -> dict[str, Any]:
    """Return a body whose spec is good but for these."""
    return {**GOOD, "spec": {**GOOD["spec"], **changes}}


BODIES: list[tuple[dict[str, Any], int, str, str]] = [
    # body, status, code, a word of the detail
    (vm(name=""), 400, "invalid_input", "name"),
    (vm(name="a" * 64), 400, "invalid_input", "name"),
    (vm(name="two words"), 400, "invalid_input", "name"),
    (vm(name="-web"), 400, "invalid_input", "name"),
    (vm(name=7), 400, "invalid_input", "name"),
    (vm(project="nowhere"), 404, "not_found", "nowhere"),
    (vm(project=""), 400, "invalid_input", "project"),
    (vm(on_unplaceable="maybe"), 400, "invalid_input", "on_unplaceable"),
    (vm(protected="yes"), 400, "invalid_input", "protected"),
    (vm(colour="red"), 400, "invalid_input", "colour"),
    (spec(colour="red"), 400, "invalid_input", "colour"),
    ({"name": "web"}, 400, "invalid_input", "spec"),
    (spec(cpu="0"), 400, "invalid_quantity", "cpu"),
    (spec(cpu="-1"), 400, "invalid_quantity", "cpu"),
    (spec(cpu="many"), 400, "invalid_quantity", "cpu"),
    (spec(cpu="1001"), 400, "invalid_quantity", "cpu"),
    (spec(cpu=None), 400, "invalid_input", "cpu"),
    (spec(cpu=1e300), 400, "invalid_quantity", ""),
    (spec(memory="1"), 400, "invalid_quantity", "memory"),
    (spec(memory="2Pi"), 400, "invalid_quantity", "memory"),
    (spec(memory="1Xi"), 400, "invalid_quantity", "memory"),
    (spec(disks=[{"size": "1"}]), 400, "invalid_quantity", "disks[0].size"),
    (spec(disks=[{"size": "1Gi", "image": {}}]), 400, "invalid_input", "disks[0].image"),
    (spec(disks=[{"size": "1Gi", "image": {"url": "ftp://x/y"}}]), 400, "invalid_input", "url"),
    (spec(disks=[{"size": "1Gi", "image": {"url": "https://x/y"}}]), 400, "invalid_input", "sha256"),
    (spec(disks=[{"size": "1Gi", "image": {"path": "/a/../etc/passwd"}}]), 400, "invalid_input", "path"),
    (spec(disks=[{"size": "1Gi"}] * 17), 400, "invalid_input", "disks"),
    (spec(disks=[{"size": "1Pi"}, {"size": "1Pi"}]), 400, "invalid_input", "disks"),
    (spec(devices=[{"kind": "gpu", "count": 0}]), 400, "invalid_input", "count"),
    (spec(kernel="boot"), 400, "invalid_input", "kernel"),
    (spec(initrd="/boot/initrd"), 400, "invalid_input", "initrd"),
    (spec(kernel="/k", kernel_arguments="a\nb"), 400, "invalid_input", "kernel_arguments"),
    (spec(network={"kind": "bridge"}), 400, "invalid_input", "bridge"),
    (spec(network={"kind": "carrier-pigeon"}), 400, "invalid_input", "kind"),
    (spec(labels={"": "x"}), 400, "invalid_input", "labels"),
    (spec(labels={f"k{n}": "v" for n in range(65)}), 400, "invalid_input", "labels"),
    (spec(priority=2**31), 400, "invalid_input", "priority"),
    (spec(strategy="bestfit"), 400, "invalid_strategy", "bestfit"),
    (spec(when_lost="restart", disks=[{"size": "1Gi"}]), 400, "invalid_input", "when_lost"),
    (spec(when_lost="panic"), 400, "invalid_input", "when_lost"),
    (spec(tolerations=[{"key": "k", "operator": "Likes"}]), 400, "invalid_input", "operator"),
    (spec(spread=[{"topology": "rack", "max_skew": 0, "selector": {}}]), 400, "invalid_input", "max_skew"),
    ({**spec(gang="crew"), "on_unplaceable": "fail"}, 400, "invalid_input", "gang"),
]


async def head(service: InProcessService) -> int:
    """Return the number of the last thing that was written."""
    return await service.database.read(log.head)


async def test_every_field_of_a_vm_out_of_range_is_named_and_nothing_is_written() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await service.caught_up()
        before = await head(service)
        for body, status, code, word in BODIES:
            answer = await service.ask("POST", "/v1/vms", json=body)
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (status, code), (body, problem)
            assert word in problem["detail"], (body, problem)
            assert problem["hint"]
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem["request_id"] == answer.headers["x-request-id"]
        assert (await service.ask("GET", "/v1/vms")).json()["items"] == []
        await service.caught_up()
        assert await head(service) == before


RAW: list[tuple[bytes, str, int, str]] = [
    (b"{", "application/json", 400, "invalid_json"),
    (b'{"name": "web",}', "application/json", 400, "invalid_json"),
    (b"\xff\xfe", "application/json", 400, "invalid_json"),
    (b'{"name": "\xff"}', "application/json", 400, "invalid_json"),
    (b'{"name": "\\ud800"}', "application/json", 400, "invalid_json"),
    (b"[" * 100_000, "application/json", 400, "invalid_"),
    (b'{"spec": ' + b'{"labels": ' * 5_000, "application/json", 400, "invalid_"),
    (b"null", "application/json", 400, "invalid_input"),
    (b"[]", "application/json", 400, "invalid_input"),
    (b'"web"', "application/json", 400, "invalid_input"),
    (b"", "application/json", 400, "invalid_input"),
    (b"{}", "text/plain", 415, "unsupported_media_type"),
    (b"name=web", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
    (b"{}", "", 415, "unsupported_media_type"),
    (b" " * (1 << 20) + b"{}", "application/json", 413, "body_too_large"),
]


async def test_broken_bodies_are_refused_by_what_is_wrong_with_them() -> None:
    async with open_service() as service:
        await service.caught_up()
        before = await head(service)
        for raw, media, status, code in RAW:
            answer = await service.ask("POST", "/v1/vms", content=raw, headers={"Content-Type": media})
            assert answer.status_code == status, (raw[:40], answer.text)
            assert answer.json()["code"].startswith(code), (raw[:40], answer.text)
        assert await head(service) == before
        assert not [line for line in service.said if "failed" in line]


async def test_broken_json_is_reported_with_its_position() -> None:
    async with open_service() as service:
        body, headers = b'{"name": web}', {"Content-Type": "application/json"}
        answer = await service.ask("POST", "/v1/vms", content=body, headers=headers)
        assert "byte 9" in answer.json()["detail"]


async def test_a_body_that_lies_about_its_length_is_cut_off_at_the_limit() -> None:
    async def endless() -> Any:
        for _ in range(40):
            yield b" " * 65_536

    async with open_service() as service:
        headers = {"Content-Type": "application/json"}
        answer = await service.ask("POST", "/v1/vms", content=endless(), headers=headers)
        assert answer.status_code == 413


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def slow() -> Any:
        yield b"{"
        await asyncio.sleep(60)

    async with open_service(settings=ControlSettings(read_s=0.01)) as service:
        headers = {"Content-Type": "application/json"}
        answer = await service.ask("POST", "/v1/vms", content=slow(), headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (408, "request_timeout")


OTHERS: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/v1/vms?limit=0", None, 400, "invalid_input"),
    ("GET", "/v1/vms?limit=501", None, 400, "invalid_input"),
    ("GET", "/v1/vms?limit=many", None, 400, "invalid_input"),
    ("GET", "/v1/vms?after=nonsense", None, 400, "invalid_cursor"),
    ("GET", "/v1/vms?state=happy", None, 400, "invalid_input"),
    ("GET", "/v1/vms?colour=red", None, 400, "invalid_input"),
    ("GET", "/v1/vms?name=a&name=b", None, 400, "invalid_input"),
    ("GET", "/v1/vms?label=x", None, 400, "invalid_input"),
    ("GET", "/v1/vms/none", None, 404, "not_found"),
    ("GET", "/v1/vms/none/decision", None, 404, "not_found"),
    ("GET", "/v1/vms/none/events", None, 404, "not_found"),
    ("POST", "/v1/vms/none/start", None, 404, "not_found"),
    ("POST", "/v1/vms?wait=61", GOOD, 400, "invalid_input"),
    ("POST", "/v1/vms?wait=-1", GOOD, 400, "invalid_input"),
    ("POST", "/v1/vms?wait=nan", GOOD, 400, "invalid_input"),
    ("PATCH", "/v1/vms/none", {"protected": True}, 404, "not_found"),
    ("DELETE", "/v1/vms/none", None, 404, "not_found"),
    ("GET", "/v1/operations/none", None, 404, "not_found"),
    ("GET", "/v1/hosts/none", None, 404, "not_found"),
    ("POST", "/v1/hosts/a/force-offline", {"confirm": "b"}, 400, "not_confirmed"),
    ("POST", "/v1/hosts/a/force-offline", None, 400, "invalid_input"),
    ("POST", "/v1/hosts/a/confirm-dead", {"confirm": "A"}, 400, "not_confirmed"),
    ("POST", "/v1/hosts/a/confirm-dead", {"confirm": "a"}, 409, "host_is_alive"),
    ("POST", "/v1/hosts/a/allow-teardown", {"confirm": 0}, 400, "invalid_input"),
    ("POST", "/v1/hosts/a/allow-teardown", {"confirm": 3}, 409, "teardown_changed"),
    ("DELETE", "/v1/hosts/a", None, 400, "not_confirmed"),
    ("PATCH", "/v1/hosts/a", {"overcommit": {"cpu": 0}}, 400, "invalid_quantity"),
    ("PATCH", "/v1/hosts/a", {"overcommit": {"luck": 2}}, 400, "invalid_input"),
    ("PATCH", "/v1/hosts/a", {"reserve": {"memory": "-1"}}, 400, "invalid_quantity"),
    ("PATCH", "/v1/hosts/a", {"labels": {"": "x"}}, 400, "invalid_input"),
    ("PATCH", "/v1/hosts/a", {"taints": [{"key": "k", "effect": "Maybe"}]}, 400, "invalid_input"),
    ("POST", "/v1/projects", {"name": "default"}, 409, "name_taken"),
    ("POST", "/v1/projects", {"name": "a b"}, 400, "invalid_input"),
    ("POST", "/v1/projects", {"name": "p", "labels": {"a b": ""}}, 400, "invalid_input"),
    ("DELETE", "/v1/projects/none", None, 404, "not_found"),
    ("POST", "/v1/quotas", {"project": "none"}, 404, "not_found"),
    ("POST", "/v1/quotas", {"project": "default", "max": {"cpu": "x"}}, 400, "invalid_quantity"),
    ("POST", "/v1/quotas", {"project": "default", "max": {"cpu": 1}, "min": {"cpu": 2}}, 400, "invalid_input"),
    ("POST", "/v1/reservations", {"name": "r", "amounts": {}}, 400, "invalid_input"),
    ("POST", "/v1/reservations", {"name": "r", "amounts": {"cpu": 1}, "since": "soon"}, 400, "invalid_input"),
    (
        "POST",
        "/v1/reservations",
        {"name": "r", "amounts": {"cpu": 1}, "since": "2030-01-02T00:00:00Z", "until": "2030-01-01T00:00:00Z"},
        400,
        "invalid_input",
    ),
    ("POST", "/v1/reservations", {"name": "r", "amounts": {"guests": 1}}, 400, "invalid_input"),
    (
        "POST",
        "/v1/reservations",
        {"name": "r", "amounts": {"cpu": 1}, "until": "2999-01-01T00:00:00Z"},
        400,
        "invalid_input",
    ),
    ("POST", "/v1/gangs", {"name": "g", "min_count": 0}, 400, "invalid_input"),
    ("POST", "/v1/gangs", {"name": "g", "min_count": 3, "max_count": 2}, 400, "invalid_input"),
    ("POST", "/v1/gangs", {"name": "g", "release_after": "soon"}, 400, "invalid_quantity"),
    ("POST", "/v1/gangs", {"name": "g", "project": "none"}, 404, "not_found"),
    ("POST", "/v1/keys", {"name": "k", "role": "king"}, 400, "invalid_input"),
    ("POST", "/v1/keys", {"name": "k", "role": "viewer", "scopes": ["moon.*"]}, 400, "invalid_input"),
    ("POST", "/v1/keys", {"name": "k", "role": "viewer", "ttl_s": 1}, 400, "invalid_input"),
    ("POST", "/v1/keys", {"name": "k", "role": "viewer", "project": "none"}, 404, "not_found"),
    ("DELETE", "/v1/keys/none", None, 404, "not_found"),
    ("POST", "/v1/tokens", {"ttl_s": 1}, 400, "invalid_input"),
    ("POST", "/v1/tokens", {"host_name": "a b"}, 400, "invalid_input"),
    ("DELETE", "/v1/tokens/none", None, 404, "not_found"),
    ("POST", "/v1/plan", {"vms": []}, 400, "invalid_input"),
    ("POST", "/v1/plan", {"vms": [{"spec": GOOD["spec"], "count": 1000}] * 3}, 400, "invalid_input"),
    ("POST", "/v1/plan", {"vms": [{"spec": GOOD["spec"]}], "without_hosts": ["none"]}, 400, "invalid_input"),
    (
        "POST",
        "/v1/plan",
        {"vms": [{"spec": GOOD["spec"]}], "hosts": [{"name": "a", "cpu": 1, "memory": "1Gi"}]},
        400,
        "invalid_input",
    ),
    ("POST", "/v1/candidates", {"spec": {**GOOD["spec"], "strategy": "x"}}, 400, "invalid_strategy"),
    ("GET", "/v1/events?after=-1", None, 400, "invalid_input"),
    ("GET", "/nowhere", None, 404, "not_found"),
    ("DELETE", "/v1/vms", None, 405, "method_not_allowed"),
    ("POST", "/livez", None, 405, "method_not_allowed"),
]


async def test_a_table_of_other_bad_requests_and_none_of_them_changes_anything() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await service.caught_up()
        before = await head(service)
        for method, path, body, status, code in OTHERS:
            more = {} if body is None else {"json": body}
            answer = await service.ask(method, path, **more)
            found = (answer.status_code, answer.json()["code"])
            assert found == (status, code), (method, path, body, answer.text)
            assert answer.headers["x-request-id"]
        await service.caught_up()
        assert await head(service) == before
        assert not [line for line in service.said if "failed" in line]


@pytest.mark.parametrize("header", ['"x', "7", "W/7", "", '"1" "2"'])
async def test_an_if_match_that_is_no_etag_is_refused(header: str) -> None:
    async with open_service() as service:
        identity = (await service.create("web")).json()["vm"]["id"]
        answer = await service.ask("POST", f"/v1/vms/{identity}/stop", headers={"If-Match": header})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


async def test_unexpected_error_is_hidden_from_caller_and_logged() -> None:
    async with open_service() as service:
        await service.create("web")
        await service.caught_up()
        damage = "UPDATE vms SET status = '[\"in the cellar\"]'"
        await service.database.write(lambda connection: connection.exec_driver_sql(damage).rowcount)
        answer = await service.ask("GET", "/v1/vms", headers={"X-Request-Id": "r-1"})
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert "Expected" not in answer.text
        assert "r-1" in answer.json()["hint"]
        assert answer.headers["x-request-id"] == "r-1"
        assert any("r-1" in line and "Expected `object`, got `array`" in line for line in service.said)
