"""The pulse of a watchdog: what counts as one that works."""

from __future__ import annotations

import pytest

from hostler.agent.pulse import FRESH_S, Pulse, PulseFile, is_beating

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
