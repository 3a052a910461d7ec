"""What is told of a host that is not heard or not let in, and of the VMs on it: what the matter is and what to do."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from hostler.control.fleet.announcing import announce
from hostler.control.fleet.hosts import read_body
from hostler.control.store import Connection, hosts
from tests.control.api.house import House, open_house
from tests.control.api.test_how_vms_are import fall_silent, made

WORDS = {
    "joined": "start the agent of a: it has joined and never registered",
    "silent": "bring a back: it is not heard, so look at its network, its agent and the machine; "
    "if it is dead, switch it off, then hostler host confirm-dead a",
    "offline": "start the agent of a again: somebody forced it offline",
    "fenced": "repair a and start its agent: it was proved dead",
}


async def trouble(house: House) -> str:
    """Return what is wrong with host a: one host says the same as the list."""
    [listed] = (await house.ask("GET", "/v1/hosts")).json()["items"]
    assert (await house.ask("GET", "/v1/hosts/a")).json()["trouble"] == listed["trouble"]
    return str(listed["trouble"])


async def register(house: House) -> None:
    """Let the agent of host a be one that has registered."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, "a")
        assert row is not None
        known = msgspec.structs.replace(row, agent="x")
        announce(connection, row, known, read_body(row), actor="test", now_ns=time.time_ns())

    await house.database.write(work)


@pytest.mark.parametrize("state", WORDS)
def test_a_host_that_is_not_heard_says_what_brings_it_back(state: str) -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            assert await trouble(house) == ""
            await house.set_state("a", state)
            assert await trouble(house) == WORDS[state]

    asyncio.run(scenario())


def test_a_host_whose_credential_was_revoked_says_how_it_joins_again() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            await register(house)
            answer = await house.ask("POST", "/v1/hosts/a/revoke-credential")
            assert answer.status_code == 200, answer.text
            assert await trouble(house) == (
                "let a join again: its credential was revoked, so start its agent with what "
                "hostler token create --host a gives"
            )

    asyncio.run(scenario())


def test_a_vm_on_a_silent_host_says_that_nothing_is_heard_of_it() -> None:
    async def scenario() -> None:
        async with open_house() as house:
            await house.add_hosts("a")
            vm = await made(house, "web")
            assert (await house.ask("GET", f"/v1/vms/{vm}")).json()["why"] == ""
            await fall_silent(house, vm)
            shown = (await house.ask("GET", f"/v1/vms/{vm}")).json()
            assert shown["state"] == "unknown"
            assert shown["why"] == "nothing is heard of its host a, so whether it runs is not known"
            told = {one["type"]: (one["status"], one["message"]) for one in shown["conditions"]}
            assert told["reachable"] == (False, shown["why"])
            assert told["placed"] == (True, "")

    asyncio.run(scenario())
