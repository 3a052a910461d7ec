"""A state machine drives the service over REST and compares it with a small model of what users were promised.

``user_actions`` is the machine, ``promise_model`` the model: what is wanted, protected, rejected, and who may have how
much. ``fake_hosts`` are hosts that speak the agents' protocol, can be cordoned and drained, and fall silent. The test
does not know where VMs should go: at rest each is on a permitted host, fits there, and is as requested or says why not.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.control.api.user_actions import UserActions


def play(examples: int, steps: int) -> None:
    """Let users do things at random. A failure is reported as it came: finding a shorter one would take minutes."""
    run_state_machine_as_test(
        UserActions,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            phases=[Phase.generate],
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        ),
    )


REST = ("rest",)


def vm(name: str, cores: int, kind: str = "plain", *, project: str = "default", key: str = "") -> tuple[object, ...]:
    return ("create", (project, name), cores, kind, False, key)


STORIES: dict[str, list[tuple[object, ...]]] = {
    "a project within its quota": [
        ("limit_red", 3), REST, vm("web", 2, project="red"), REST, vm("db", 2, project="red"), REST,
        ("create_or_fail", ("red", "mail"), 2), ("edit", 1, 3, "now", "size"), REST, ("limit_red", 6), REST,
        ("limit_red", 1), REST, ("power", 0, "stop", "", "now"), REST, ("power", 0, "start", "", ""), REST,
        ("limit_red", None), REST,
    ],
    "room that comes back when its host says so": [
        vm("web", 4), vm("db", 3), vm("cache", 2), REST, ("delete", 2, "", "now"), vm("mail", 4), REST,
        ("power", 1, "stop", "k1", ""), vm("web", 3), REST, ("power", 1, "start", "", ""), REST,
        ("edit", 0, 1, "now", "size"), vm("tail", 1), REST,
    ],
    "a gang that is whole or waits": [
        vm("web", 1, "gang"), REST, vm("db", 1, "gang"), REST, ("delete", 0, "", "now"), REST,
        ("delete", 0, "", "now"), REST, vm("web", 1, "gang"), REST,
    ],
    "moves that are made and refused": [
        vm("web", 2), vm("db", 1, "disk"), REST, ("migrate", 1, "", "now"), ("migrate", 1, "nowhere", ""),
        ("migrate", 0, "a", "old"), ("migrate", 0, "c", "now"), ("power", 1, "pause", "", "now"), REST,
        ("migrate", 1, "a", ""), ("power", 1, "resume", "", ""), ("power", 1, "stop", "", ""), REST,
        ("migrate", 1, "", "now"),
    ],
    "hosts that are drained and fall silent": [
        vm("web", 2), vm("db", 1, "disk"), vm("cache", 1), REST, ("operate", "a", "drain"), REST,
        ("operate", "b", "silence"), REST, ("power", 2, "stop", "", "now"), ("delete", 0, "", ""), REST,
        ("create_or_fail", ("red", "web"), 2), ("operate", "b", "come back"), REST, ("operate", "a", "undrain"), REST,
        *[("operate", name, "silence") for name in "abc"], ("create_or_fail", ("red", "db"), 1), REST,
        *[("operate", name, "come back") for name in "abc"], REST,
    ],
    "keys that are used again": [
        vm("web", 1, key="k1"), vm("web", 1, key="k1"), vm("db", 1, key="k1"), REST, ("power", 0, "stop", "k1", ""),
        REST, ("power", 0, "start", "", ""), REST, ("power", 0, "stop", "k1", ""), REST, ("delete", 0, "k1", ""),
        ("delete", 0, "k1", ""), REST,
    ],
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_what_was_promised_comes_true(story: str) -> None:
    machine = UserActions()
    try:
        machine.begin([])
        for deed in STORIES[story]:
            machine.people(deed)
            machine.lists_show_what_was_promised()
            machine.nothing_is_promised_twice()
    finally:
        machine.teardown()


def test_whatever_people_do_gets_what_was_promised() -> None:
    play(6, 25)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_whatever_people_do_for_long_gets_what_was_promised() -> None:
    play(150, 60)
