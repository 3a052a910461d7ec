"""What cannot be taken back, where nobody can be asked: whole sentences."""

from __future__ import annotations

import pytest

from tests.cli.running import hostler


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("delete", "node-3 is to be forgotten."),
        ("force-offline", "node-3 is to be treated as offline."),
        ("confirm-dead", "VMs of node-3 will start elsewhere: it must be switched off."),
    ],
)
@pytest.mark.usefixtures("project")
def test_without_a_terminal_it_is_said_what_would_happen_and_what_is_missing(verb, what):
    result = hostler("host", verb, "node-3")
    assert (result.code, result.error) == (2, f"{what} Nobody can be asked here for the host's name")
    assert result.hint == "--confirm node-3"
