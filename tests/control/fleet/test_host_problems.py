"""What is wrong with a host, in words, and how often events speak of VMs that nobody knows."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import DeviceHere, HostSize
from hostler.control.fleet.hosts.host_body import HostBody, with_reported_size
from hostler.control.fleet.hosts.host_problems import STRANGERS_EVERY_S, describe_problems, update_reported_problems
from hostler.control.fleet.times import SECOND
from hostler.control.settings import ControlSettings
from hostler.control.store.rows.hosts import HostRow

RESTORED = HostRow(id="h", name="north", state="ready", epoch=1_800_000_000_000)
NOON = 1_800_000_000 * SECOND


def with_strangers(body: HostBody, *names: str) -> HostBody:
    return msgspec.structs.replace(body, strangers=names)


def test_a_host_that_is_well_has_no_trouble() -> None:
    assert describe_problems(msgspec.structs.replace(RESTORED, agent="agent-1"), HostBody()) == ""


@pytest.mark.parametrize("state", ["ready", "silent", "offline"])
def test_host_not_registered_since_restore_says_what_to_do(state: str) -> None:
    text = describe_problems(msgspec.structs.replace(RESTORED, state=state), HostBody())
    assert "not registered since the restore" in text
    assert "start its agent" in text
    assert "hostler host confirm-dead north" in text


@pytest.mark.parametrize("state", ["joined", "fenced"])
def test_a_host_that_nobody_waits_for_is_in_no_trouble_by_a_restore(state: str) -> None:
    assert describe_problems(msgspec.structs.replace(RESTORED, state=state), HostBody()) == ""


def test_a_size_that_is_not_taken_is_a_trouble_until_one_is() -> None:
    row = msgspec.structs.replace(RESTORED, agent="agent-1")
    assert "is rejected, and its old size counts: too much" in describe_problems(row, HostBody(refused_size="too much"))


def test_host_without_its_devices_says_so_until_a_size_is_taken() -> None:
    row = msgspec.structs.replace(RESTORED, agent="agent-1")
    plain = HostSize(cpu_millis=1000, memory_bytes=2**30)
    full = msgspec.structs.replace(plain, devices=(DeviceHere(kind="tpu"),))
    body = HostBody(size=plain, refused_size="no room", is_without_devices=True)
    again = with_reported_size(row, body, full, ControlSettings(), lacks_names="still no room")
    for one, why in ((body, "no room"), (again, "still no room")):
        assert f"counts without its devices, so VMs that need one do not fit: {why}" in describe_problems(row, one)
        assert "overcommitment" not in describe_problems(row, one)
    assert describe_problems(row, with_reported_size(row, again, full, ControlSettings())) == ""


def test_first_strangers_are_named_and_next_minutes_are_counted() -> None:
    before = HostBody()
    known, told = update_reported_problems(before, with_strangers(before, "a"), NOON)
    assert told == "has unknown VMs, and keeps them: a"
    texts = []
    names = ["a"]
    for number in range(STRANGERS_EVERY_S):
        names.append(f"b{number:02}")
        known, told = update_reported_problems(known, with_strangers(known, *names), NOON + number * SECOND)
        texts.append(told)
    assert texts == [""] * STRANGERS_EVERY_S
    later = NOON + STRANGERS_EVERY_S * SECOND
    known, told = update_reported_problems(known, with_strangers(known, *names, "c"), later)
    assert told == ("has unknown VMs, and keeps them: c; since the last such event: 60 more unknown VMs")
    assert update_reported_problems(known, known, later + 2 * STRANGERS_EVERY_S * SECOND) == (known, "")


def test_strangers_only_counted_are_reported_by_next_host_change() -> None:
    known, _ = update_reported_problems(HostBody(), HostBody(strangers=("a",)), NOON)
    known, _ = update_reported_problems(known, with_strangers(known, "a", "b"), NOON + 1)
    changed = msgspec.structs.replace(known, is_watched=True)
    known, told = update_reported_problems(known, changed, NOON + STRANGERS_EVERY_S * SECOND)
    assert told == "since the last such event: 1 more unknown VM"
    assert known.strangers_untold == 0


def test_a_clock_that_went_back_silences_nobody() -> None:
    known, _ = update_reported_problems(HostBody(), HostBody(strangers=("a",)), NOON)
    _, told = update_reported_problems(known, with_strangers(known, "a", "b"), NOON - 3600 * SECOND)
    assert told == "has unknown VMs, and keeps them: b"


def test_a_refused_size_is_reported_however_many_strangers_there_are() -> None:
    known, _ = update_reported_problems(HostBody(), HostBody(strangers=("a",)), NOON)
    worse = msgspec.structs.replace(known, strangers=("a", "b"), refused_size="too much")
    known, told = update_reported_problems(known, worse, NOON + 1)
    assert told == "the size that its agent reports is rejected, and its old size counts: too much"
    assert update_reported_problems(known, known, NOON + 2)[1] == ""
