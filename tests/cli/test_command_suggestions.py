"""An unknown command gets the command that was most likely meant."""

from __future__ import annotations

import pytest

from hostler.cli import command_suggestions
from tests.cli.cli_in_process import hostler


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        # a verb before its noun, as in kubectl
        ("get vms", "hostler vm list"),
        ("get vm web-0", "hostler vm get"),
        ("list vms", "hostler vm list"),
        ("describe vm web-0", "hostler vm get"),
        ("delete host host-03", "hostler host delete"),
        ("drain node host-03", "hostler host drain"),
        ("create vm web", "hostler vm create"),
        ("get nodes", "hostler host list"),
        ("explain-vm web-0", "hostler explain"),
        # other nouns
        ("vms", "hostler vm"),
        ("vms list", "hostler vm list"),
        ("nodes ls", "hostler host list"),
        ("tenant show red", "hostler project get"),
        ("policy", "hostler policies"),
        # other verbs
        ("vm ls", "hostler vm list"),
        ("vm rm web-0", "hostler vm delete"),
        ("vm reboot web-0", "hostler vm restart"),
        ("vm start-all", "hostler vm start"),
        ("host maintenance host-03", "hostler host drain"),
        ("config check", "hostler config validate"),
        ("config lint", "hostler config validate"),
        ("context add prod", "hostler context set"),
        ("context switch prod", "hostler context use"),
        ("dev start", "hostler dev up"),
        # a command without its group, and words for whole commands
        ("migrate web-0", "hostler vm migrate"),
        ("cordon host-03", "hostler host cordon"),
        ("validate fleet.yaml", "hostler config validate"),
        ("replay run.journal", "hostler journal replay"),
        ("simulate openb", "hostler sim run"),
        ("login", "hostler context set"),
        ("ps", "hostler vm list"),
        ("schedule", "hostler kube schedule"),
        ("why web-0", "hostler explain"),
        # slips
        ("plase", "hostler place"),
        ("journal rplay", "hostler journal replay"),
        ("vm migarte web-0", "hostler vm migrate"),
    ],
)
def test_unknown_command_suggests_the_nearest_meaning(words, meant):
    found = hostler(*words.split())
    assert found.code == 2
    assert found.error.startswith("no such command")
    assert found.hint == f"did you mean '{meant}'?"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("xyzzy", "see 'hostler --help'"),
        ("vm xyzzy", "see 'hostler vm --help'"),
        ("token show", "see 'hostler token --help'"),
    ],
)
def test_command_like_no_other_gets_the_help(words, hint):
    assert hostler(*words.split()).hint == hint


def test_every_command_in_the_table_exists():
    paths = {*command_suggestions._COMMANDS.values(), *command_suggestions._NOUNS.values()}
    assert {path for path in paths if hostler(*path.split(), "--help").code != 0} == set()
