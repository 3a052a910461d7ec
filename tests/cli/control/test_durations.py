"""Options that take a duration say which of them was wrong, and what they take."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler

TAKES = "seconds, or a duration such as 90s, 5m or 1h30m"


@pytest.mark.parametrize(
    "words",
    [
        ("vm", "resize", "web-0", "--cpu", "2", "--wait", "abc"),
        ("vm", "resize", "--wait", "abc", "web-0", "--cpu", "2"),
        ("vm", "migrate", "web-0", "--wait", "abc"),
        ("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait", "abc"),
        ("vm", "stop", "web-0", "--wait=abc"),
        ("host", "drain", "node-1", "--wait=abc"),
    ],
    ids=" ".join,
)
def test_a_wait_that_is_no_duration_is_named_with_what_it_takes(words: tuple[str, ...]) -> None:
    result = hostler(*words)
    assert (result.code, result.error) == (2, "--wait: 'abc' is not a duration")
    assert result.hint == f"give --wait {TAKES}"


@pytest.mark.parametrize("text", ["5min", "2d", "10secs", "1hour"])
def test_a_duration_in_other_units_is_not_looked_for_as_a_vm(text: str) -> None:
    result = hostler("vm", "stop", "web-0", "--wait", text)
    assert (result.code, result.error, result.hint) == (
        2,
        f"--wait: {text!r} is not a duration",
        f"give --wait {TAKES}",
    )


def test_half_a_second_learns_what_is_taken_instead() -> None:
    result = hostler("vm", "stop", "web-0", "--wait", "500ms")
    assert (result.code, result.error) == (2, "--wait: '500ms' is not a whole number of seconds")
    assert result.hint == f"give --wait {TAKES}"


def test_other_options_for_durations_say_the_same_of_themselves() -> None:
    result = hostler("operation", "wait", "some-id", "--seconds", "abc")
    assert (result.code, result.error) == (2, "--seconds: 'abc' is not a duration")
    assert result.hint == f"give --seconds {TAKES}"


def test_other_mistakes_beside_a_bare_wait_are_told_as_they_are() -> None:
    result = hostler("vm", "resize", "--wait", "web-0", "--bogus")
    assert result.code == 2
    assert result.error.startswith("no such option")


@pytest.mark.usefixtures("project")
def test_unknown_name_after_wait_hints_at_duration() -> None:
    assert hostler("vm", "create", "web-0", "--cpu", "1", "--memory", "1Gi", "--wait", "300").code == 0
    result = hostler("vm", "stop", "web-0", "--wait", "abc")
    assert result.error.startswith("there is no VM 'abc' in project ")
    assert result.hint.endswith(f"; if 'abc' was to say how long, give --wait {TAKES}")
    assert "how long" not in hostler("vm", "stop", "abc").hint


@pytest.mark.usefixtures("project")
def test_the_service_names_the_field_whose_duration_is_none() -> None:
    result = hostler("gang", "create", "crew", "--min-count", "2", "--release-after", "abc")
    assert (result.code, result.error) == (2, "release_after: 'abc' is not a duration")
