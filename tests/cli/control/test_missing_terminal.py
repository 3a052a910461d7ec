"""What cannot be taken back, where nobody can be asked: whole sentences."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler


@pytest.mark.parametrize(
    ("verb", "what"),
    [
        ("delete", "node-3 will be deleted."),
        ("force-offline", "node-3 will be treated as offline."),
        ("confirm-dead", "VMs of node-3 will start elsewhere: the host must be switched off."),
    ],
)
@pytest.mark.usefixtures("project")
def test_without_terminal_message_says_effect_and_missing_option(verb, what):
    result = hostler("host", verb, "node-3")
    assert (result.code, result.error) == (
        2,
        f"{what} Cannot prompt for the host's name: standard input is not a terminal",
    )
    assert result.hint == "--confirm node-3"
