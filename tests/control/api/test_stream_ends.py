"""Streams end with the key that opened them: when it is revoked here or elsewhere, and when its time is over."""

from __future__ import annotations

import time

import httpx
import pytest

from hostler.control.access.authenticator import LIFE_S
from hostler.control.access.secrets import parse_secret
from hostler.control.settings import ControlSettings
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_ended_keys import revoked_elsewhere
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


def put_forward(service: InProcessService, by_s: float) -> None:
    """Let the clock go on from another time."""
    service.context.clock = lambda: time.time_ns() + int(by_s * 10**9)


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_ends_as_soon_as_it_is_known_here_that_its_key_is_revoked(path: str) -> None:
    async with open_service(settings=NEVER) as service, served(service) as client:
        secret = await service.key("viewer")
        async with client.stream("GET", path, headers=as_bearer(secret)) as answer:
            await revoked_elsewhere(service, secret)  # which leaves no news by which the stream would wake
            service.context.authenticator.forget(parse_secret(secret, "key").id)
            await ends(answer)


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_ends_when_its_key_is_revoked_by_a_request(path: str) -> None:
    async with open_service(settings=NEVER) as service, served(service) as client:
        secret = await service.key("viewer")
        async with client.stream("GET", path, headers=as_bearer(secret)) as answer:
            assert (await service.ask("DELETE", f"/v1/keys/{parse_secret(secret, 'key').id}")).status_code == 200
            await ends(answer)


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_ends_when_the_time_of_its_key_is_over(path: str) -> None:
    async with open_service(settings=NEVER) as service, served(service) as client:
        secret = await service.key("viewer", ttl_s=HOUR_S)
        async with client.stream("GET", path, headers=as_bearer(secret)) as answer:
            put_forward(service, HOUR_S - 0.5)
            service.context.books.subscriptions.notify((), ())  # it wakes, and sees how little time is left
            await ends(answer)


@pytest.mark.parametrize("path", PATHS)
async def test_stream_ends_soon_after_key_is_revoked_on_another_replica(path: str) -> None:
    settings = ControlSettings(alive_s=HOUR_S, stream_look_s=0.05)
    async with open_service(settings=settings) as service, served(service) as client:
        secret = await service.key("viewer")
        async with client.stream("GET", path, headers=as_bearer(secret)) as answer:
            await revoked_elsewhere(service, secret)
            put_forward(service, LIFE_S)
            await ends(answer)


def test_cache_life_plus_stream_check_stay_within_promise() -> None:
    assert LIFE_S + ControlSettings().stream_look_s <= PROMISED_S
