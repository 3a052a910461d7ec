"""Hints guess what was meant."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import DEMO_FILES, hostler


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["plase"], "did you mean 'hostler place'?"),
        (["journal", "rplay"], "did you mean 'hostler journal replay'?"),
        (["xyzzy"], "see 'hostler --help'"),
        (["place", "--polcy", "x"], "did you mean --policy?"),
        (["place", "fleet.yaml"], "did you mean -f fleet.yaml?"),
        (["place", "-f", "guests.yaml", "--policy", "pack", "fleet.json"], "did you mean -f fleet.json?"),
        (["explain", "fleet.yaml", "web-0"], "did you mean -f fleet.yaml?"),
        (["place", "--config", "c.yaml"], "see 'hostler place --help'"),
        (["journal", "replay"], "see 'hostler journal replay --help'"),
    ],
)
def test_usage_errors_guess_what_was_meant(words, hint):
    assert hostler(*words).hint == hint


def test_the_prefix_of_counted_guests_is_no_guest():
    result = hostler("explain", *DEMO_FILES, "web")
    assert (result.code, result.error) == (2, "'web' stands for 10 guests")
    assert result.hint == "name one, web-0 to web-9"
