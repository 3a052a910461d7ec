"""The pulse of a watchdog: what counts as one that works."""

from __future__ import annotations

import pytest

from hostler.agent.watchdog.deadlines import FIND_S, FRESH_S
from hostler.agent.watchdog.pulse import HaltCapacity, Pulse, PulseFile, is_beating, vms_in_time

SECOND = 1_000_000_000
PULSE = Pulse(boot="now", looked_at=100 * SECOND, hypervisor="qemu /vms")


@pytest.mark.parametrize(
    ("pulse", "boot", "hypervisor", "age_s", "counts"),
    [
        (PULSE, "now", "qemu /vms", 1.0, True),
        (PULSE, "now", "qemu /vms", FRESH_S, False),
        (PULSE, "later", "qemu /vms", 1.0, False),
        (PULSE, "now", "qemu /other", 1.0, False),
        (None, "now", "qemu /vms", 1.0, False),
        (Pulse(boot="now", looked_at=100 * SECOND, hypervisor=""), "now", "", 1.0, False),
    ],
    ids=["fresh", "old", "of another boot", "of another hypervisor", "none", "of what nobody else can stop"],
)
def test_only_a_fresh_pulse_of_this_boot_and_hypervisor_counts(pulse, boot, hypervisor, age_s, counts):
    now = int((100 + age_s) * SECOND)
    assert is_beating(pulse, boot=boot, hypervisor=hypervisor, now=now) is counts


def test_a_pulse_is_read_as_it_was_written_until_it_is_cleared(tmp_path):
    file = PulseFile(tmp_path / "pulse")
    assert file.read() is None
    file.write(PULSE)
    assert file.read() == PULSE
    file.clear()
    file.clear()
    assert file.read() is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"boot": 1}'])
def test_a_pulse_that_cannot_be_read_is_none(content, tmp_path):
    (tmp_path / "pulse").write_bytes(content)
    assert PulseFile(tmp_path / "pulse").read() is None


@pytest.mark.parametrize(
    ("look_s", "vms", "most_at_once", "in_time"),
    [
        (0.0, 0, 1024, 200),
        (0.5, 0, 1024, 100),
        (0.5, 100, 1024, 200),
        (0.5, 10, 1024, 20),
        (0.1, 100, 64, 64),
        (FIND_S, 100, 1024, 0),
    ],
    ids=["idle", "busy", "so many more fit", "by what each took", "descriptors", "too slow"],
)
def test_vms_that_fit_follow_from_how_long_a_look_took(look_s, vms, most_at_once, in_time):
    assert vms_in_time(look_s, vms, most_at_once) == in_time


def test_capacity_follows_slowest_scan_of_a_minute():
    capacity = HaltCapacity()
    assert [capacity.note(count) for count in (200, 130, 127, 1000)] == [128, 128, 64, 64]
    assert [capacity.note(1000) for _ in range(60)][-1] == 512
    assert capacity.note(600, rehearsed=550) == 550, "those that were rehearsed in time fit"
    assert capacity.note(64, rehearsed=100) == 64, "if there are descriptors for them"
    assert capacity.note(0) == 0


def test_pulse_of_an_older_watchdog_is_trusted_with_one_vm(tmp_path):
    (tmp_path / "pulse").write_bytes(b'{"boot":"now","looked_at":1,"hypervisor":"qemu /vms"}')
    pulse = PulseFile(tmp_path / "pulse").read()
    assert pulse is not None
    assert pulse.stoppable == 1
