"""The login address of ``hostler dev up`` works once, and only for a limited time."""

from __future__ import annotations

import pytest

from hostler.web.pages.login import LOGIN_LIFE_S, OneTimeLogin
from hostler.web.routes import mount
from tests.control.api.service_in_process import InProcessService, open_service

_NS = 1_000_000_000


class SetClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ns = 5 * _NS

    def __call__(self) -> int:
        return self.now_ns


def add_login(service: InProcessService, clock: SetClock) -> OneTimeLogin:
    """Add the pages with a login address to a service."""
    login = OneTimeLogin(lambda: service.secret, clock)
    mount(service.app, service.context, one_time=login)
    return login


@pytest.mark.parametrize(("age_s", "status"), [(LOGIN_LIFE_S - 1, 303), (LOGIN_LIFE_S, 400)])
async def test_login_address_expires(age_s: int, status: int) -> None:
    clock = SetClock()
    async with open_service() as service:
        address = f"/login/once/{add_login(service, clock).issue()}"
        clock.now_ns += age_s * _NS
        answer = await service.client.get(address)
        assert (answer.status_code, "set-cookie" in answer.headers) == (status, status == 303)
        if status == 400:
            assert "this login address is unknown, was used already or has expired" in answer.text
            clock.now_ns -= age_s * _NS
            again = await service.client.get(address)
            assert again.status_code == 400, "it stays expired, also if the clock is set back"


async def test_no_token_works_before_one_is_issued() -> None:
    async with open_service() as service:
        add_login(service, SetClock())
        for token in ("x", "%00"):
            assert (await service.client.get(f"/login/once/{token}")).status_code == 400


async def test_login_address_works_once() -> None:
    async with open_service() as service:
        address = f"/login/once/{add_login(service, SetClock()).issue()}"
        statuses = [(await service.client.get(address)).status_code for _ in range(2)]
        assert statuses == [303, 400]
