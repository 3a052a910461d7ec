"""What-ifs that take long: one caller has two under way, and others have their turn meanwhile."""

from __future__ import annotations

import asyncio
import threading

import httpx
import pytest

from tests.control.api.house import SMALL, House, open_house

VM = {"project": "default", "name": "web", "spec": SMALL}
ASKED = {"/v1/plan": {"vms": [VM]}, "/v1/candidates": {"project": "default", "spec": SMALL}}


async def under_way(house: House, count: int) -> None:
    while house.context.asking._open.total() != count:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("path", ASKED)
def test_the_third_what_if_of_a_key_is_told_to_come_again_and_another_key_has_its_turn(path: str) -> None:
    async def story() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            mine, theirs = [await house.key("viewer") for _ in range(2)]

            def ask(key: str) -> asyncio.Future[httpx.Response]:
                return asyncio.ensure_future(house.as_key(key, "POST", path, json=ASKED[path]))

            may_end = threading.Event()
            first = asyncio.ensure_future(house.context.books.what_if(lambda engine: may_end.wait()))
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
