"""What-ifs that take long: one caller has two under way, and others have their turn meanwhile."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest

from hostler.control.access.errors import TooManyRequestsError
from hostler.control.api.asking import EXPLAINED, Asking
from hostler.control.services.bounds import MAX_GANGS_OF_PROJECT, MAX_KEYS_OF_PROJECT
from tests.control.api.house import SMALL, House, open_house
from tests.wait import GIVE_UP_S, until

VM = {"project": "default", "name": "web", "spec": SMALL}
ASKED = {"/v1/plan": {"vms": [VM]}, "/v1/candidates": {"project": "default", "spec": SMALL}}


async def under_way(house: House, count: int) -> None:
    await until(lambda: house.context.asking.count("what-ifs of key") == count)


@pytest.mark.parametrize("path", ASKED)
def test_the_third_what_if_of_a_key_is_told_to_come_again_and_another_key_has_its_turn(path: str) -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            mine, theirs = [await house.key("viewer") for _ in range(2)]

            def ask(key: str) -> asyncio.Future[httpx.Response]:
                return asyncio.ensure_future(house.as_key(key, "POST", path, json=ASKED[path]))

            may_end = threading.Event()
            first = asyncio.ensure_future(house.context.books.what_if(lambda engine, seq: may_end.wait()))
            try:
                waiting = [ask(mine), ask(mine)]
                await under_way(house, 2)
                refused = await ask(mine)
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
                assert refused.json()["detail"] == "2 what-ifs of this key are under way"
                assert refused.headers["Retry-After"] == "1"
                waiting.append(ask(theirs))
                await under_way(house, 3)
            finally:
                may_end.set()
            await first
            assert [one.status_code for one in await asyncio.gather(*waiting)] == [200] * 3
            assert (await ask(mine)).status_code == 200

    asyncio.run(story())


@pytest.mark.parametrize("path", ASKED)
def test_more_keys_give_a_project_no_more_what_ifs(path: str) -> None:
    """Each of three keys has one or two under way; the fifth what-if of their project has to come again."""

    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            keys = [await house.key("viewer") for _ in range(3)]
            may_end = threading.Event()
            first = asyncio.ensure_future(house.context.books.what_if(lambda engine, seq: may_end.wait()))
            try:
                waiting = []
                for key in (keys[0], keys[0], keys[1], keys[1]):
                    waiting.append(asyncio.ensure_future(house.as_key(key, "POST", path, json=ASKED[path])))
                    await under_way(house, len(waiting))
                async with asyncio.timeout(GIVE_UP_S):  # one that is not rejected waits for the others
                    refused = await house.as_key(keys[2], "POST", path, json=ASKED[path])
                assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
                assert refused.json()["detail"] == "4 what-ifs of project default are under way"
                assert refused.headers["Retry-After"] == "1"
            finally:
                may_end.set()
            await first
            assert [one.status_code for one in await asyncio.gather(*waiting)] == [200] * 4

    asyncio.run(story())


def test_explanations_of_a_project_are_limited_whatever_the_key() -> None:
    asking = Asking(EXPLAINED)
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


def test_gangs_and_keys_of_a_project_are_limited() -> None:
    async def story() -> None:
        async with open_house() as house:
            for number in range(MAX_GANGS_OF_PROJECT):
                gang = {"name": f"g{number}", "min_count": 2}
                assert (await house.ask("POST", "/v1/gangs", json=gang)).status_code == 201
            refused = await house.ask("POST", "/v1/gangs", json={"name": "more", "min_count": 2})
            assert (refused.status_code, refused.json()["code"]) == (409, "too_many_in_project")
            assert refused.json()["hint"] == "delete gangs that are not needed"
            for number in range(MAX_KEYS_OF_PROJECT):
                key = {"name": f"k{number}", "role": "viewer", "project": "default"}
                assert (await house.ask("POST", "/v1/keys", json=key)).status_code == 201
            refused = await house.ask("POST", "/v1/keys", json={"name": "x", "role": "viewer", "project": "default"})
            assert (refused.status_code, refused.json()["code"]) == (409, "too_many_in_project")

    asyncio.run(story())
