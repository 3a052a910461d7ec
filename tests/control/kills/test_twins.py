"""What shows that a service decides on as if it had never died can itself fail: a forged log is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from hostler.control.books.follower import Follower, Step
from hostler.control.store.history import log
from hostler.control.store.history.log import StoredEntry
from hostler.control.vms.guests import vm_of_uid
from hostler.model import Event, GuestArrived, GuestBound
from tests.control.api.service_in_process import open_service
from tests.control.kills.story import check_saved
from tests.control.kills.twins import decisions

_EVENT = msgspec.json.Decoder(Event)


async def a_log() -> tuple[list[StoredEntry], dict[str, str]]:
    """Return the log of a service that placed some VMs, and where it says that they are."""
    async with open_service() as service:
        await service.add_hosts("a", "b", "c")
        for number in range(9):
            await service.create(f"vm-{number}", spec={"cpu": str(1 + number % 2)})
            await service.settle()
        told = (await service.ask("GET", "/v1/vms")).json()["items"]
        entries = await service.database.read(lambda connection: log.read_after(connection, 0, 10_000))
        return entries, {vm["id"]: vm["host"] for vm in told if vm["host"]}


@pytest.fixture(scope="module")
def lived() -> tuple[list[StoredEntry], dict[str, str]]:
    return asyncio.run(a_log())


def first(entries: list[StoredEntry], is_it: Callable[[StoredEntry], bool]) -> int:
    return next(at for at, entry in enumerate(entries) if is_it(entry))


def is_fact(entry: StoredEntry, kind: type) -> bool:
    return entry.kind == "fact" and isinstance(_EVENT.decode(entry.body), kind)


def with_body(entries: list[StoredEntry], at: int, body: bytes) -> list[StoredEntry]:
    forged = list(entries)
    forged[at] = msgspec.structs.replace(entries[at], body=body)
    return forged


def test_a_twin_puts_vms_where_the_service_did(lived: tuple[list[StoredEntry], dict[str, str]]):
    entries, told = lived
    assert {vm_of_uid(one.uid): one.host for one in decisions(entries) if one.host} == told
    assert len(set(told.values())) == 3


def test_a_placement_that_nobody_decided_is_noticed(lived: tuple[list[StoredEntry], dict[str, str]]):
    entries, _ = lived
    at = first(entries, lambda entry: is_fact(entry, GuestBound))
    true = _EVENT.decode(entries[at].body)
    assert isinstance(true, GuestBound)
    other = "a" if true.host != "a" else "b"
    forged = msgspec.json.encode(GuestBound(uid=true.uid, host=other))
    with pytest.raises(AssertionError, match=f"on {other}, the twin on {true.host}"):
        decisions(with_body(entries, at, forged))


def test_a_decision_that_is_not_in_the_log_is_noticed(lived: tuple[list[StoredEntry], dict[str, str]]):
    entries, _ = lived
    at = first(entries, lambda entry: is_fact(entry, GuestBound))
    forged = list(entries)
    forged[at] = msgspec.structs.replace(entries[at], kind="note")
    with pytest.raises(AssertionError, match="does not show"):
        decisions(forged)


def test_a_vm_that_was_larger_than_the_log_says_is_noticed(lived: tuple[list[StoredEntry], dict[str, str]]):
    """All facts about one VM are forged: the fact that it runs has its size, too."""
    entries, _ = lived
    vm = entries[first(entries, lambda entry: is_fact(entry, GuestArrived))].subject
    forged = list(entries)
    for at, entry in enumerate(entries):
        if entry.kind == "fact" and entry.subject == vm:
            forged[at] = msgspec.structs.replace(entry, body=entry.body.replace(b'["cpu",1000]', b'["cpu",4000]'))
    assert forged != entries
    with pytest.raises(AssertionError, match="the twin"):
        decisions(forged)


def test_a_step_that_came_to_something_else_is_noticed(lived: tuple[list[StoredEntry], dict[str, str]]):
    entries, _ = lived
    at = first(entries, lambda entry: entry.kind == "step")
    step = msgspec.json.decode(entries[at].body, type=Step)
    forged = msgspec.json.encode(msgspec.structs.replace(step, digest="another"))
    with pytest.raises(AssertionError, match="decided otherwise"):
        decisions(with_body(entries, at, forged))


def read_all(entries: list[StoredEntry]) -> Follower:
    found = Follower.begin()
    found.read(entries)
    return found


def test_state_is_as_its_twin_also_if_a_fact_waits_in_front_of_a_step(lived: tuple[list[StoredEntry], dict[str, str]]):
    entries, _ = lived
    at = first(entries, lambda entry: entry.kind == "step")
    at += first(entries[at:], lambda entry: entry.kind == "fact")  # the first fact behind a step
    assert entries[at - 1].kind == "step"
    fact = msgspec.structs.replace(entries[at], seq=at)
    step = msgspec.structs.replace(entries[at - 1], seq=at + 1)
    written = [*entries[: at - 1], fact, step]  # another replica was quicker than the leader
    saved = read_all(written).checkpoint(0)
    assert saved.seq == at - 1
    check_saved(saved, written)


def test_saved_state_that_is_not_that_of_the_log_is_noticed(lived: tuple[list[StoredEntry], dict[str, str]]):
    entries, _ = lived
    at = first(entries, lambda entry: is_fact(entry, GuestArrived))
    smaller = entries[at].body.replace(b'["cpu",1000]', b'["cpu",900]')
    saved = read_all(with_body(entries, at, smaller)).checkpoint(0)
    with pytest.raises(AssertionError):
        check_saved(saved, entries)
