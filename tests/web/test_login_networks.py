"""Logins are counted by network where an address costs nothing: an owner of one IPv6 address has a whole /64."""

from __future__ import annotations

import pytest

from tests.web.test_logins_counted import door, log_in


@pytest.mark.parametrize(
    ("addresses", "elsewhere"),
    [
        ([f"2001:db8::{at:x}" for at in range(1, 7)], "2001:db8:0:1::1"),
        ([f"2001:db8::{at:x}:1%eth0" for at in range(1, 7)], "2001:db8:0:1::1"),
        (["192.0.2.1", "::ffff:192.0.2.1"] * 3, "::ffff:192.0.2.2"),
    ],
    ids=["one network", "with a zone", "an old address in a new one"],
)
async def test_all_of_a_network_logs_in_as_often_as_one_address(addresses: list[str], elsewhere: str) -> None:
    async with door() as house:
        keys = [await house.key("viewer") for _ in range(4)]
        tries = [await log_in(house, keys[at % 4], address) for at, address in enumerate(addresses)]
        assert [one.status_code for one in tries] == [303] * 5 + [429]
        assert (await log_in(house, keys[3], elsewhere)).status_code == 303
