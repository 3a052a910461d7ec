"""Whom VMs of QEMU run as: each refusal names the option that settles it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.agent.drivers.qemu.settings import QemuSettings, runner_of
from hostler.errors import InputError


def refusal(user: str) -> InputError:
    with pytest.raises(InputError) as caught:
        runner_of(QemuSettings(folder=Path("/nowhere"), user=user))
    return caught.value


def test_an_agent_of_root_is_reported_the_option_and_how_to_make_a_user_for_it(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 0)
    error = refusal("")
    assert error.message == "VMs do not run as root and no other user is set"
    assert error.hint == "useradd --system --shell /usr/sbin/nologin hostler-vms; then give --vm-user hostler-vms"


@pytest.mark.parametrize("user", ["root", "0", "no-such-user-at-all"])
def test_a_user_that_will_not_do_is_to_be_named_otherwise_by_the_option(user):
    assert refusal(user).hint.endswith("by --vm-user")


def test_agent_without_root_runs_vms_as_its_own_user(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert refusal("nobody").hint == "leave --vm-user out, or run the agent as root"
