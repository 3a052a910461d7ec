"""What is reported about a silent or locked-out host and its VMs: the problem, and what to do."""

from __future__ import annotations

import time

import msgspec
import pytest

from hostler.control.fleet.hosts.host_body import read_body
from hostler.control.fleet.hosts.host_writes import announce
from hostler.control.store import Connection
from hostler.control.store.rows import hosts
from tests.control.api.service_in_process import InProcessService, open_service
from tests.control.api.test_vm_status_texts import fall_silent, made

WORDS = {
    "joined": "start the agent of a: it has joined and never registered",
    "silent": "bring a back: it is silent, so check its network, its agent and the machine; "
    "if it is dead, switch it off, then hostler host confirm-dead a",
    "offline": "start the agent of a again: an operator forced it offline",
    "fenced": "repair a and start its agent: it was proved dead",
}


async def trouble(service: InProcessService) -> str:
    """Return what is wrong with host a: one host says the same as the list."""
    [listed] = (await service.ask("GET", "/v1/hosts")).json()["items"]
    assert (await service.ask("GET", "/v1/hosts/a")).json()["trouble"] == listed["trouble"]
    return str(listed["trouble"])


async def register(service: InProcessService) -> None:
    """Let the agent of host a be one that has registered."""

    def work(connection: Connection) -> None:
        row = hosts.find_by_name(connection, "a")
        assert row is not None
        known = msgspec.structs.replace(row, agent="x")
        announce(connection, row, known, read_body(row), actor="test", now_ns=time.time_ns())

    await service.database.write(work)


@pytest.mark.parametrize("state", WORDS)
async def test_a_host_that_is_not_heard_says_what_brings_it_back(state: str) -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        assert await trouble(service) == ""
        await service.set_state("a", state)
        assert await trouble(service) == WORDS[state]


async def test_a_host_whose_credential_was_revoked_says_how_it_joins_again() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        await register(service)
        answer = await service.ask("POST", "/v1/hosts/a/revoke-credential")
        assert answer.status_code == 200, answer.text
        assert await trouble(service) == (
            "let a join again: its credential was revoked, so start its agent with what "
            "hostler token create --host a gives"
        )


async def test_a_vm_on_a_silent_host_says_that_nothing_is_heard_of_it() -> None:
    async with open_service() as service:
        await service.add_hosts("a")
        vm = await made(service, "web")
        assert (await service.ask("GET", f"/v1/vms/{vm}")).json()["why"] == ""
        await fall_silent(service, vm)
        shown = (await service.ask("GET", f"/v1/vms/{vm}")).json()
        assert shown["state"] == "unknown"
        assert shown["why"] == "its host a is silent, so it is unknown whether it runs"
        told = {one["type"]: (one["status"], one["message"]) for one in shown["conditions"]}
        assert told["reachable"] == (False, shown["why"])
        assert told["placed"] == (True, "")
