"""Streams end with the key that opened them: when it is revoked here or elsewhere, and when its time is over."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from hostler.control.access.doorkeeper import LIFE_S
from hostler.control.access.secrets import parse_secret
from hostler.control.settings import ControlSettings
from tests.control.api.house import House, open_house
from tests.control.api.test_keys_over import revoked_elsewhere
from tests.control.api.test_streams import EVENTS, served

PROMISED_S = 10  # on which replica ever
HOUR_S = 3600
NEVER = ControlSettings(alive_s=HOUR_S, stream_look_s=HOUR_S)  # by itself no stream looks or says anything
PATHS = ["/v1/events", "/v1/events?news=true"]


def as_bearer(secret: str) -> dict[str, str]:
    return {**EVENTS, "Authorization": f"Bearer {secret}"}


async def ends(answer: httpx.Response) -> None:
    """Read to the end of a stream, which must come by itself."""
    assert answer.status_code == 200
    async for _ in answer.aiter_lines():
        pass


def put_forward(house: House, by_s: float) -> None:
    """Let the clock go on from another time."""
    house.context.clock = lambda: time.time_ns() + int(by_s * 10**9)


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_ends_as_soon_as_it_is_known_here_that_its_key_is_revoked(path: str) -> None:
    async def story() -> None:
        async with open_house(settings=NEVER) as house, served(house) as client:
            secret = await house.key("viewer")
            async with client.stream("GET", path, headers=as_bearer(secret)) as answer:
                await revoked_elsewhere(house, secret)  # which leaves no news by which the stream would wake
                house.context.doorkeeper.forget(parse_secret(secret, "key").id)
                await ends(answer)

    asyncio.run(story())


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_ends_when_its_key_is_revoked_by_a_request(path: str) -> None:
    async def story() -> None:
        async with open_house(settings=NEVER) as house, served(house) as client:
            secret = await house.key("viewer")
            async with client.stream("GET", path, headers=as_bearer(secret)) as answer:
                assert (await house.ask("DELETE", f"/v1/keys/{parse_secret(secret, 'key').id}")).status_code == 200
                await ends(answer)

    asyncio.run(story())


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_ends_when_the_time_of_its_key_is_over(path: str) -> None:
    async def story() -> None:
        async with open_house(settings=NEVER) as house, served(house) as client:
            secret = await house.key("viewer", ttl_s=HOUR_S)
            async with client.stream("GET", path, headers=as_bearer(secret)) as answer:
                put_forward(house, HOUR_S - 0.5)
                house.context.books.watchers.tell((), ())  # it wakes, and sees how little time is left
                await ends(answer)

    asyncio.run(story())


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_ends_after_a_look_when_its_key_was_revoked_on_another_replica(path: str) -> None:
    async def story() -> None:
        settings = ControlSettings(alive_s=HOUR_S, stream_look_s=0.05)
        async with open_house(settings=settings) as house, served(house) as client:
            secret = await house.key("viewer")
            async with client.stream("GET", path, headers=as_bearer(secret)) as answer:
                await revoked_elsewhere(house, secret)
                put_forward(house, LIFE_S)
                await ends(answer)

    asyncio.run(story())


def test_what_is_believed_and_the_time_between_looks_are_together_no_more_than_is_promised() -> None:
    assert LIFE_S + ControlSettings().stream_look_s <= PROMISED_S
