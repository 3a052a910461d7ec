"""What-ifs that take long: one caller has two under way, and others have their turn meanwhile."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest

from hostler.control.access.errors import TooManyRequestsError
from hostler.control.api.requests.question_limits import EXPLAINED, QuestionLimits
from hostler.control.services.tenancy.bounds import MAX_GANGS_OF_PROJECT, MAX_KEYS_OF_PROJECT
from tests.control.api.service_in_process import SMALL, InProcessService, open_service
from tests.wait import GIVE_UP_S, until

VM = {"project": "default", "name": "web", "spec": SMALL}
ASKED = {"/v1/plan": {"vms": [VM]}, "/v1/candidates": {"project": "default", "spec": SMALL}}


async def under_way(service: InProcessService, count: int) -> None:
    await until(lambda: service.context.asking.count("what-ifs of key") == count)


@pytest.mark.parametrize("path", ASKED)
async def test_third_what_if_of_a_key_must_retry_and_another_key_may_run(path: str) -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        mine, theirs = [await service.key("viewer") for _ in range(2)]

        def ask(key: str) -> asyncio.Future[httpx.Response]:
            return asyncio.ensure_future(service.as_key(key, "POST", path, json=ASKED[path]))

        may_end = threading.Event()
        first = asyncio.ensure_future(service.context.books.what_if(lambda engine, seq: may_end.wait()))
        try:
            waiting = [ask(mine), ask(mine)]
            await under_way(service, 2)
            refused = await ask(mine)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
            assert refused.json()["detail"] == "2 what-ifs of this key are running"
            assert refused.headers["Retry-After"] == "1"
            waiting.append(ask(theirs))
            await under_way(service, 3)
        finally:
            may_end.set()
        await first
        assert [one.status_code for one in await asyncio.gather(*waiting)] == [200] * 3
        assert (await ask(mine)).status_code == 200


@pytest.mark.parametrize("path", ASKED)
async def test_more_keys_give_a_project_no_more_what_ifs(path: str) -> None:
    """Each of three keys has one or two under way; the fifth what-if of their project has to come again."""

    async with open_service() as service:
        await service.add_hosts("a")
        keys = [await service.key("viewer") for _ in range(3)]
        may_end = threading.Event()
        first = asyncio.ensure_future(service.context.books.what_if(lambda engine, seq: may_end.wait()))
        try:
            waiting = []
            for key in (keys[0], keys[0], keys[1], keys[1]):
                waiting.append(asyncio.ensure_future(service.as_key(key, "POST", path, json=ASKED[path])))
                await under_way(service, len(waiting))
            async with asyncio.timeout(GIVE_UP_S):  # one that is not rejected waits for the others
                refused = await service.as_key(keys[2], "POST", path, json=ASKED[path])
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
            assert refused.json()["detail"] == "4 what-ifs of project default are running"
            assert refused.headers["Retry-After"] == "1"
        finally:
            may_end.set()
        await first
        assert [one.status_code for one in await asyncio.gather(*waiting)] == [200] * 4


def test_explanations_of_a_project_are_limited_whatever_the_key() -> None:
    asking = QuestionLimits(EXPLAINED)
    for _ in range(300):
        with asking.explanation("default", 0):
            pass
    with (
        pytest.raises(TooManyRequestsError, match="more explanations than project default") as caught,
        asking.explanation("default", 0),
    ):
        pass
    assert caught.value.retry_after_s > 0
    with asking.explanation("other", 0):
        pass
    with asking.explanation("default", 2_000_000_000):
        pass


async def test_gangs_and_keys_of_a_project_are_limited() -> None:
    async with open_service() as service:
        for number in range(MAX_GANGS_OF_PROJECT):
            gang = {"name": f"g{number}", "min_count": 2}
            assert (await service.ask("POST", "/v1/gangs", json=gang)).status_code == 201
        refused = await service.ask("POST", "/v1/gangs", json={"name": "more", "min_count": 2})
        assert (refused.status_code, refused.json()["code"]) == (409, "too_many_in_project")
        assert refused.json()["hint"] == "delete unused gangs"
        for number in range(MAX_KEYS_OF_PROJECT):
            key = {"name": f"k{number}", "role": "viewer", "project": "default"}
            assert (await service.ask("POST", "/v1/keys", json=key)).status_code == 201
        refused = await service.ask("POST", "/v1/keys", json={"name": "x", "role": "viewer", "project": "default"})
        assert (refused.status_code, refused.json()["code"]) == (409, "too_many_in_project")
