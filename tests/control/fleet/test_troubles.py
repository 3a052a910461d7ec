"""What is wrong with a host, in words, and how often events speak of VMs that nobody knows."""

from __future__ import annotations

import msgspec
import pytest

from hostler.agent.messages import DeviceHere, HostSize
from hostler.control.fleet.hosts import HostBody, sized
from hostler.control.fleet.times import SECOND
from hostler.control.fleet.troubles import STRANGERS_EVERY_S, news_of_trouble, trouble_of
from hostler.control.settings import ControlSettings
from hostler.control.store.hosts import HostRow

RESTORED = HostRow(id="h", name="north", state="ready", epoch=1_800_000_000_000)
NOON = 1_800_000_000 * SECOND


def with_strangers(body: HostBody, *names: str) -> HostBody:
    return msgspec.structs.replace(body, strangers=names)


def test_a_host_that_is_well_has_no_trouble() -> None:
    assert trouble_of(msgspec.structs.replace(RESTORED, agent="agent-1"), HostBody()) == ""


@pytest.mark.parametrize("state", ["ready", "silent", "offline"])
def test_a_host_that_did_not_register_since_the_restore_says_so_and_what_to_do(state: str) -> None:
    text = trouble_of(msgspec.structs.replace(RESTORED, state=state), HostBody())
    assert "not registered since the restore" in text
    assert "start its agent" in text
    assert "hostler host confirm-dead north" in text


@pytest.mark.parametrize("state", ["joined", "fenced"])
def test_a_host_that_nobody_waits_for_is_in_no_trouble_by_a_restore(state: str) -> None:
    assert trouble_of(msgspec.structs.replace(RESTORED, state=state), HostBody()) == ""


def test_a_size_that_is_not_taken_is_a_trouble_until_one_is() -> None:
    row = msgspec.structs.replace(RESTORED, agent="agent-1")
    assert "not taken, and it counts as large as before: too much" in trouble_of(row, HostBody(refused_size="too much"))


def test_host_without_its_devices_says_so_until_a_size_is_taken() -> None:
    row = msgspec.structs.replace(RESTORED, agent="agent-1")
    plain = HostSize(cpu_millis=1000, memory_bytes=2**30)
    full = msgspec.structs.replace(plain, devices=(DeviceHere(kind="tpu"),))
    body = HostBody(size=plain, refused_size="no room", is_without_devices=True)
    again = sized(row, body, full, ControlSettings(), lacks_names="still no room")
    for one, why in ((body, "no room"), (again, "still no room")):
        assert f"counts without its devices, so VMs that need one do not fit: {why}" in trouble_of(row, one)
        assert "overcommitment" not in trouble_of(row, one)
    assert trouble_of(row, sized(row, again, full, ControlSettings())) == ""


def test_the_first_strangers_are_named_and_those_of_the_next_minute_counted() -> None:
    before = HostBody()
    known, told = news_of_trouble(before, with_strangers(before, "a"), NOON)
    assert told == "has VMs that nobody knows, and keeps them: a"
    texts = []
    names = ["a"]
    for number in range(STRANGERS_EVERY_S):
        names.append(f"b{number:02}")
        known, told = news_of_trouble(known, with_strangers(known, *names), NOON + number * SECOND)
        texts.append(told)
    assert texts == [""] * STRANGERS_EVERY_S
    later = NOON + STRANGERS_EVERY_S * SECOND
    known, told = news_of_trouble(known, with_strangers(known, *names, "c"), later)
    assert told == (
        "has VMs that nobody knows, and keeps them: c; since the last such event came 60 more that nobody knows"
    )
    assert news_of_trouble(known, known, later + 2 * STRANGERS_EVERY_S * SECOND) == (known, "")


def test_those_that_were_only_counted_are_told_by_the_next_change_of_the_host() -> None:
    known, _ = news_of_trouble(HostBody(), HostBody(strangers=("a",)), NOON)
    known, _ = news_of_trouble(known, with_strangers(known, "a", "b"), NOON + 1)
    changed = msgspec.structs.replace(known, is_watched=True)
    known, told = news_of_trouble(known, changed, NOON + STRANGERS_EVERY_S * SECOND)
    assert told == "since the last such event came 1 more that nobody knows"
    assert known.strangers_untold == 0


def test_a_clock_that_went_back_silences_nobody() -> None:
    known, _ = news_of_trouble(HostBody(), HostBody(strangers=("a",)), NOON)
    _, told = news_of_trouble(known, with_strangers(known, "a", "b"), NOON - 3600 * SECOND)
    assert told == "has VMs that nobody knows, and keeps them: b"


def test_a_refused_size_is_told_however_many_strangers_there_are() -> None:
    known, _ = news_of_trouble(HostBody(), HostBody(strangers=("a",)), NOON)
    worse = msgspec.structs.replace(known, strangers=("a", "b"), refused_size="too much")
    known, told = news_of_trouble(known, worse, NOON + 1)
    assert told == "the size that its agent tells is not taken, and it counts as large as before: too much"
    assert news_of_trouble(known, known, NOON + 2)[1] == ""
