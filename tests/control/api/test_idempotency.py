"""Idempotency keys and ETags: what is sent twice happens once, and nobody overwrites what he has not seen."""

from __future__ import annotations

import asyncio
from typing import Any

from hostler.control.settings import ControlSettings
from tests.control.api.service_in_process import InProcessService, open_service

BODY: dict[str, Any] = {"name": "web", "spec": {"cpu": "1", "memory": "1Gi"}}


def key(name: str) -> dict[str, str]:
    return {"Idempotency-Key": name}


async def names(service: InProcessService) -> list[str]:
    return [item["name"] for item in (await service.ask("GET", "/v1/vms")).json()["items"]]


async def one_vm(service: InProcessService) -> str:
    """Return the path of a VM that was decided about."""
    made = await service.create("web")
    await service.caught_up()
    return f"/v1/vms/{made.json()['vm']['id']}"


async def test_the_same_key_gives_the_first_answer_again(url: str) -> None:
    async with open_service(url=url) as service:
        first = await service.ask("POST", "/v1/vms", json=BODY, headers=key("k"))
        again = await service.ask("POST", "/v1/vms", json=BODY, headers=key("k"))
        assert first.status_code == again.status_code == 202
        assert first.json() == again.json()
        assert await names(service) == ["web"]


async def test_without_a_key_the_second_create_meets_the_first(url: str) -> None:
    async with open_service(url=url) as service:
        await service.ask("POST", "/v1/vms", json=BODY)
        again = await service.ask("POST", "/v1/vms", json=BODY)
        assert (again.status_code, again.json()["code"]) == (409, "name_taken")


async def test_the_same_key_with_another_body_is_refused(url: str) -> None:
    async with open_service(url=url) as service:
        await service.ask("POST", "/v1/vms", json=BODY, headers=key("k"))
        other = await service.ask("POST", "/v1/vms", json={**BODY, "name": "db"}, headers=key("k"))
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
        assert await names(service) == ["web"]


async def test_a_key_belongs_to_one_caller_and_one_path(url: str) -> None:
    async with open_service(url=url) as service:
        other = await service.key("editor")
        first = await service.ask("POST", "/v1/vms", json=BODY, headers=key("k"))
        theirs = await service.as_key(other, "POST", "/v1/vms", json={**BODY, "name": "db"}, headers=key("k"))
        assert theirs.status_code == 202
        identity = first.json()["vm"]["id"]
        stopped = await service.ask("POST", f"/v1/vms/{identity}/stop", headers=key("k"))
        assert stopped.status_code == 200
        assert await names(service) == ["web", "db"]


async def test_a_key_that_is_too_old_is_a_new_one(url: str) -> None:
    async with open_service(url=url, settings=ControlSettings(keep_idempotency_s=0.0)) as service:
        await service.ask("POST", "/v1/vms", json=BODY, headers=key("k"))
        again = await service.ask("POST", "/v1/vms", json=BODY, headers=key("k"))
        assert again.json()["code"] == "name_taken"


async def test_of_many_at_once_with_one_key_one_is_carried_out(url: str) -> None:
    async with open_service(url=url) as service:
        answers = await asyncio.gather(
            *(service.ask("POST", "/v1/vms", json=BODY, headers=key("k")) for _ in range(20))
        )
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["vm"]["id"] for answer in answers}) == 1
        assert len({answer.json()["operation"]["id"] for answer in answers}) == 1
        assert await names(service) == ["web"]
        assert len((await service.ask("GET", "/v1/operations")).json()["items"]) == 1


async def test_a_refused_request_leaves_its_key_unused(url: str) -> None:
    async with open_service(url=url) as service:
        refused = await service.ask("POST", "/v1/vms", json={**BODY, "project": "none"}, headers=key("k"))
        assert refused.status_code == 404
        assert (await service.ask("POST", "/v1/vms", json=BODY, headers=key("k"))).status_code == 202


async def test_a_key_that_is_no_key_is_refused() -> None:
    async with open_service() as service:
        for bad in ("", "k" * 256):
            answer = await service.ask("POST", "/v1/vms", json=BODY, headers=key(bad))
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")


async def test_a_change_with_an_old_etag_is_refused_and_one_with_the_new_is_not(url: str) -> None:
    async with open_service(url=url) as service:
        path = await one_vm(service)
        tag = (await service.ask("GET", path)).headers["etag"]
        first = await service.ask("PATCH", path, json={"protected": True}, headers={"If-Match": tag})
        assert first.status_code == 200
        second = await service.ask("PATCH", path, json={"protected": False}, headers={"If-Match": tag})
        assert (second.status_code, second.json()["code"]) == (412, "stale_version")
        assert (await service.ask("GET", path)).json()["protected"] is True
        third = await service.ask("PATCH", path, json={"protected": False}, headers={"If-Match": first.headers["etag"]})
        assert third.status_code == 200


async def test_of_many_changes_with_one_etag_one_wins(url: str) -> None:
    async with open_service(url=url) as service:
        path = await one_vm(service)
        tag = {"If-Match": (await service.ask("GET", path)).headers["etag"]}
        answers = await asyncio.gather(
            *(service.ask("PATCH", path, json={"spec": {"labels": {"n": str(n)}}}, headers=tag) for n in range(10))
        )
        assert sorted(answer.status_code for answer in answers) == [202] + [412] * 9
        winner = next(answer for answer in answers if answer.status_code == 202).json()["vm"]["spec"]["labels"]
        now = (await service.ask("GET", path)).json()
        assert now["spec"]["labels"] == winner
        found = (await service.ask("GET", "/v1/vms", params={"label": f"n={winner['n']}"})).json()["items"]
        assert [one["name"] for one in found] == ["web"]


async def test_every_kind_of_thing_with_an_etag_keeps_it(url: str) -> None:
    async with open_service(url=url) as service:
        await service.add_hosts("a")
        made = [
            ("/v1/projects", {"name": "p"}, "/v1/projects/p", {"description": "x"}),
            ("/v1/quotas", {"project": "p"}, "/v1/quotas/p", {"max": {"cpu": 4}}),
            (
                "/v1/reservations",
                {"project": "p", "name": "r", "amounts": {"cpu": 1}},
                "/v1/reservations/p/r",
                {"amounts": {"cpu": 2}},
            ),
            ("/v1/gangs", {"project": "p", "name": "g"}, "/v1/gangs/p/g", {"min_count": 2}),
            (None, None, "/v1/hosts/a", {"labels": {"zone": "1"}}),
        ]
        for create, body, path, change in made:
            if create is not None:
                answer = await service.ask("POST", create, json=body)
                assert answer.status_code == 201, answer.text
            old = (await service.ask("GET", path)).headers["etag"]
            good = await service.ask("PATCH", path, json=change, headers={"If-Match": old})
            assert good.status_code == 200, good.text
            stale = await service.ask("PATCH", path, json=change, headers={"If-Match": old})
            assert stale.status_code == 412, stale.text
            confirm = {"confirm": "a"} if path == "/v1/hosts/a" else {}
            gone = await service.ask("DELETE", path, params=confirm, headers={"If-Match": old})
            assert gone.status_code == 412, gone.text
