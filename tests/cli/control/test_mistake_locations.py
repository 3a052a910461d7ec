"""Mistakes in amounts, times and names: the error names the option or field, and what would be right."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import secret

pytestmark = pytest.mark.usefixtures("project")

AMOUNT = "amount '2x' is not a quantity"
CPU = 'write it as 2, "1500m" or "0.5"'


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (("token", "create", "--ttl", "5"), "--ttl: 5 is too short", "give --ttl 1m to 168h"),
        (("token", "create", "--ttl", "200h"), "--ttl: 200h is too long", "give --ttl 1m to 168h"),
        (
            ("key", "create", "ci", "--role", "viewer", "--ttl", "5s"),
            "--ttl: 5s is too short",
            "give --ttl 1m to 87600h",
        ),
        (("reservation", "create", "night", "--amounts", "cpu=2x"), f"the request: amounts.cpu: {AMOUNT}", CPU),
        (
            ("reservation", "create", "night", "--amounts", "cpu=0"),
            "the request: amounts reserves nothing",
            "name amounts, such as {cpu: 4}",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_place(words, error, hint):
    result = hostler(*words)
    assert (result.code, result.error, result.hint) == (2, error, hint)


@pytest.mark.parametrize("which", ["min", "max"])
def test_an_amount_of_a_quota_is_named_by_its_place(project, which):
    result = hostler("quota", "set", project, f"--{which}", "cpu=2x")
    assert (result.code, result.error, result.hint) == (2, f"{which}.cpu: {AMOUNT}", CPU)


def test_a_reservation_for_a_gang_that_is_not_there_says_so(project):
    said = f"note: gang {project}/crew does not exist yet, so no VM may use that room: 'hostler gang create' creates it"
    try:
        made = hostler("reservation", "create", "night", "--amounts", "cpu=1", "--gang", "crew")
        assert (made.code, made.err.splitlines()[0]) == (0, said)
        assert hostler("gang", "create", "crew").code == 0
        assert "does not exist" not in hostler("reservation", "edit", "night", "--amounts", "cpu=2").err
    finally:
        hostler("reservation", "delete", "night", "--yes")
        hostler("gang", "delete", "crew", "--yes")


def test_a_vm_that_is_named_twice_is_changed_once(project):
    assert hostler("vm", "create", "web", "--cpu", "1", "--memory", "1Gi", "--wait", "300").code == 0
    stopped = hostler("vm", "stop", "web", f"{project}/web", "--wait", "300")
    assert (stopped.code, len(stopped.lines)) == (0, 1)
    deleted = hostler("vm", "delete", "web", "web", "--yes", "--wait", "300")
    assert (deleted.code, deleted.lines) == (0, [f"{project}/web: delete done"])


def test_vms_of_a_host_that_is_not_there_are_no_empty_list(project, tmp_path):
    refused = hostler("vm", "list", "--host", "node-9")
    assert (refused.code, refused.error) == (2, "host node-9 does not exist")
    assert hostler("vm", "list", "--host", "node-1").err.startswith("there are no such VMs")
    made = hostler("key", "create", "mine", "--role", "viewer", "--in-project", project)
    key = secret(tmp_path / "mine.key", made.lines[0])
    blind = hostler("vm", "list", "--host", "node-9", "--key-file", str(key))  # it may know of no host
    assert (blind.code, blind.err) == (
        0,
        f"there are no such VMs in project {project}; -p names another project, -A means all\n",
    )
