"""``hostler project``, ``quota``, ``reservation``, ``gang`` and ``operation``, against a real service."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler
from tests.cli.control.undecided_vms import decided_in_time
from tests.wait import wait_until

SMALL = ("--cpu", "1", "--memory", "1Gi")


def test_a_project_is_made_changed_and_deleted(project):
    assert hostler("project", "create", "blue", "--description", "the sea", "--label", "tier=1").out == (
        "project blue: created\n"
    )
    assert hostler("project", "list").row("blue")[-3:-1] == ["tier=1", "0"]
    assert hostler("project", "edit", "blue", "--label", "tier-", "--label", "zone=a").code == 0
    assert hostler("project", "edit", "blue", "--max-priority", "7").code == 0
    found = hostler("project", "get", "blue", "-o", "json").json
    assert found["max_priority"] == 7
    assert (found["labels"], found["description"]) == ({"zone": "a"}, "the sea")
    assert hostler("project", "edit", "blue").error == "nothing to change"
    assert hostler("project", "create", "blue").code == 4
    assert hostler("project", "delete", "blue").hint == "--yes confirms it"
    assert hostler("project", "delete", "blue", "--yes").code == 0
    assert hostler("project", "get", "blue").code == 2


def test_a_name_that_is_none_is_refused_before_it_is_sent(project):
    result = hostler("project", "create", "no name")
    assert result.code == 2
    assert result.error.startswith("name: ")


def test_a_quota_is_set_and_kept_to(project):
    assert hostler("quota", "set", project, "--max", "cpu=1,memory=4Gi").out == (
        f"quota of {project}: - guaranteed, at most cpu 1, memory 4Gi\n"
    )
    assert hostler("quota", "set", project, "--min", "cpu=1").code == 0
    assert hostler("vm", "create", "one", *SMALL, "--wait", "300").code == 0
    refused = decided_in_time(
        lambda span_s: hostler("vm", "create", f"two-{span_s}", *SMALL, "--wait", f"{span_s}", "-o", "json")
    )
    assert refused.code == 1
    two = refused.error.partition(" is not placed: ")[0]
    found = hostler("quota", "get", project, "-o", "json").json
    assert (found["min"], found["max"]["cpu"], found["used"]["cpu"]) == ({"cpu": "1"}, "1", "1")
    assert project in hostler("quota", "list").out
    assert "quota" in hostler("vm", "explain", two).out
    assert hostler("quota", "delete", project, "--yes").code == 0
    wait_until(lambda: hostler("vm", "get", two, "-o", "json").json["state"] == "running")
    assert hostler("quota", "set", project).error == "no amounts are named"


def test_a_reservation_keeps_room(project):
    words = ("--amounts", "cpu=2", "--selector", "kubernetes.io/hostname=node-1", "--until", "2090-01-01T00:00:00Z")
    result = hostler("reservation", "create", "night", *words)
    assert (result.code, result.out) == (0, f"reservation {project}/night: cpu 2 on each host\n")
    assert result.err == "note: 1 of 3 hosts keeps it\n"
    assert hostler("reservation", "list").row(project)[1:4] == ["night", "cpu", "2"]
    assert hostler("reservation", "get", f"{project}/night", "-o", "json").json["amounts"] == {"cpu": "2"}
    result = hostler("reservation", "edit", "night", "--amounts", "cpu=1,memory=1Gi", "--until", "")
    assert (result.code, result.out) == (0, f"reservation {project}/night: cpu 1, memory 1Gi on each host\n")
    result = hostler("reservation", "edit", "night", "--amounts", "cpu=8")
    closed = f"1 host has no cpu left for others than project {project}"
    assert result.err == f"note: 1 of 3 hosts keeps it; {closed}\n"
    assert closed in hostler("reservation", "get", "night").out
    found = hostler("reservation", "get", "night", "-o", "json").json
    assert (found["until"], found["host_selector"]) == ("", {"kubernetes.io/hostname": "node-1"})
    assert hostler("reservation", "edit", "night").error == "nothing to change"
    assert hostler("reservation", "delete", "night", "--yes").code == 0
    assert hostler("reservation", "list").err == (
        f"there are no reservations in project {project} yet: 'hostler reservation create NAME --amounts "
        "cpu=4,memory=16Gi' makes one; -p names another project, -A means all\n"
    )


def test_a_gang_waits_for_its_members(project):
    assert hostler("gang", "create", "crew", "--min-count", "2").out == f"gang {project}/crew: created\n"
    hostler("vm", "create", "worker-0", *SMALL, "--gang", "crew")
    assert hostler("vm", "get", "worker-0", "-o", "json").json["host"] is None
    assert hostler("vm", "create", "worker-1", *SMALL, "--gang", "crew", "--wait", "300").code == 0
    wait_until(lambda: hostler("gang", "get", "crew", "-o", "json").json["placed"] == 2)
    assert hostler("gang", "list").row(project)[1:5] == ["crew", "2", "of", "2"]
    assert hostler("gang", "edit", "crew", "--min-count", "1").code == 0
    assert hostler("gang", "get", f"{project}/crew", "-o", "json").json["min_count"] == 1
    hostler("vm", "delete", "worker-0", "worker-1", "--yes", "--wait", "300")
    assert hostler("gang", "delete", "crew", "--yes").code == 0


def test_operations_are_listed_and_waited_for(project):
    change = hostler("vm", "create", "one", *SMALL, "-o", "json").json
    identity = change["operation"]["id"]
    result = hostler("operation", "wait", identity, "--seconds", "300")
    assert result.code == 0, result.err
    assert "done" in result.out
    assert hostler("operation", "get", identity, "-o", "json").json["state"] == "done"
    rows = hostler("operation", "list", "--vm", "one", "-o", "json").json["items"]
    assert [row["kind"] for row in rows] == ["vm.create"]
    assert hostler("operation", "list", "--state", "failed").err == "there are no such operations\n"


def test_an_operation_that_goes_on_ends_with_3(project):
    identity = hostler("vm", "create", "huge", "--cpu", "64", "--memory", "1Gi", "-o", "json").json["operation"]["id"]
    result = hostler("operation", "wait", identity, "--seconds", "1")
    assert result.code == 3
    assert "still in progress" in result.err


def test_operations_name_the_vm_that_they_are_about(project):
    change = hostler("vm", "create", "one", *SMALL, "-o", "json").json
    identity, subject = change["operation"]["id"], change["vm"]["id"]
    assert hostler("operation", "list").row(identity)[3] == f"{project}/one"
    assert f"{project}/one" in hostler("operation", "get", identity).out
    assert hostler("operation", "get", identity, "-o", "json").json["subject"] == subject
    assert subject in hostler("operation", "list", "-o", "wide").out


def test_a_project_without_a_quota_is_reported_so(project):
    for words in (("get", project), ("delete", project, "--yes")):
        result = hostler("quota", *words)
        assert (result.code, result.error) == (2, f"project {project} has no quota")
        assert result.hint == "'hostler quota list' shows what there is"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("host", "drain", "nobody"), "host"),
        (("project", "get", "nobody"), "project"),
        (("gang", "get", "nobody"), "gang"),
        (("key", "revoke", "nobody", "--yes"), "key"),
        (("token", "revoke", "nobody"), "token"),
        (("vm", "get", "00000000-0000-4000-8000-000000000000"), "vm"),
    ],
)
@pytest.mark.usefixtures("project")
def test_missing_object_hints_at_the_command_that_lists_it(words, command):
    result = hostler(*words)
    assert (result.code, result.hint) == (2, f"'hostler {command} list' shows what there is")


@pytest.mark.parametrize("kind", ["project", "quota", "gang", "reservation", "operation"])
def test_what_is_not_there_is_reported_so(project, kind):
    result = hostler(kind, "get", "nobody")
    assert result.code == 2
    assert result.error


@pytest.mark.usefixtures("project")
def test_a_project_has_a_strategy_of_its_own_that_must_exist():
    assert hostler("project", "create", "tight", "--strategy", "best_fit").code == 0
    try:
        assert hostler("project", "get", "tight", "-o", "json").json["strategy"] == "best_fit"
        wrong = hostler("project", "edit", "tight", "--strategy", "bestfit")
        assert (wrong.code, "best_fit" in wrong.hint) == (2, True)
        assert hostler("project", "edit", "tight", "--strategy", "").code == 0
        assert hostler("project", "get", "tight", "-o", "json").json["strategy"] == ""
    finally:
        assert hostler("project", "delete", "tight", "--yes").code == 0
