"""What commands say to those who use them for the first time: what is so already, what is taken, what is meant."""

from __future__ import annotations

import re

import pytest

from tests.cli.cli_in_process import hostler
from tests.wait import wait_until

SIZE = ("--cpu", "1", "--memory", "1Gi")


def test_resuming_a_vm_that_runs_is_said_to_change_nothing(project):
    assert hostler("vm", "create", "web", *SIZE, "--wait").code == 0
    said = hostler("vm", "resume", "web", "--wait").out
    assert said.startswith(f"{project}/web: nothing to change; it is running on node-")
    assert hostler("vm", "pause", "web", "--wait").out.startswith(f"{project}/web: pause done; it is paused on node-")


@pytest.mark.usefixtures("project")
def test_a_vm_that_waits_can_neither_be_paused_nor_resumed():
    assert hostler("vm", "create", "huge", "--cpu", "64", "--memory", "1Gi").code == 0
    assert [hostler("vm", verb, "huge", "--wait").code for verb in ("pause", "resume")] == [4, 4]


def test_a_plan_says_which_names_are_taken(project):
    assert hostler("vm", "create", "web-0", *SIZE).code == 0
    result = hostler("vm", "plan", "web", "--count", "2", *SIZE)
    assert result.err == f"note: such a VM exists, so 'create' would be rejected: {project}/web-0\n"
    many = hostler("vm", "plan", "web", "--count", "21", "--cpu", "10m", "--memory", "1Mi")
    assert f"would be rejected: {project}/web-0\n" in many.err
    assert hostler("vm", "plan", "db", *SIZE).err == ""


@pytest.mark.usefixtures("project")
def test_a_plan_of_a_vm_without_a_name_knows_no_name_that_is_taken():
    assert hostler("vm", "create", "vm", *SIZE).code == 0
    assert hostler("vm", "plan", *SIZE).err == ""


@pytest.mark.usefixtures("project")
def test_a_project_before_the_name_of_a_new_vm_is_answered_with_the_option():
    result = hostler("vm", "create", "dev/x", *SIZE)
    assert (result.code, result.error) == (2, "'dev/x' is not a name for a new VM")
    assert result.hint == "name the project by its option: x -p dev"


@pytest.mark.usefixtures("project")
def test_the_queue_says_of_when_its_reasons_are():
    assert hostler("vm", "queue").err == "no VM waits\n"
    assert hostler("vm", "create", "huge", "--cpu", "64", "--memory", "1Gi").code == 0
    assert hostler("vm", "queue").err.startswith("note: WHY is of the last try; 'hostler vm explain NAME'")
    assert hostler("vm", "queue", "-o", "json").err == ""


def test_waiting_vm_shows_when_it_was_last_tried(project):
    assert hostler("vm", "create", "huge", "--cpu", "64", "--memory", "1Gi").code == 0
    wait_until(lambda: bool(hostler("vm", "get", "huge", "-o", "json").json["tried_at"]))
    tried = hostler("vm", "get", "huge", "-o", "json").json["tried_at"]
    assert f"Tried       {tried} (" in hostler("vm", "get", "huge").out
    queue = hostler("vm", "queue")
    assert queue.lines[0].split()[-2:] == ["TRIED", "WHY"]
    assert re.search(r" [0-9]+[smh]  0 of 3 hosts: ", queue.lines[1])
    assert queue.row(f"{project}/huge")


@pytest.mark.usefixtures("project")
def test_the_unit_of_the_scheduling_text_is_named_beside_it():
    result = hostler("host", "scheduling", "node-1")
    assert " GB" in result.out
    assert result.err == "note: GB in this text are GiB; -o json has bytes\n"


def test_a_gang_is_shown_in_lines_like_vms_and_hosts(project):
    assert hostler("gang", "create", "crew", "--min-count", "2").code == 0
    found = hostler("gang", "get", "crew")
    assert found.row("Name") == ["Name", f"{project}/crew"]
    assert found.row("Evicted") == ["Evicted", "one", "by", "one"]
    assert hostler("gang", "edit", "crew", "--disruption", "all").code == 0
    assert hostler("gang", "get", "crew").row("Evicted") == ["Evicted", "all", "together"]


class TestDeletingByLabel:
    """``hostler vm delete -l``."""

    def test_those_with_all_labels_go_and_others_stay(self, project):
        for name, labels in (("a", ("tier=web", "zone=1")), ("b", ("tier=web",)), ("c", ("tier=db", "zone=1"))):
            words = [word for label in labels for word in ("--label", label)]
            assert hostler("vm", "create", name, *SIZE, *words, "--wait").code == 0
        asked = hostler("vm", "delete", "-l", "tier=web")
        assert asked.code == 2
        assert f"Delete 2 VMs ({project}/a, {project}/b) with all disks?" in asked.error
        assert hostler("vm", "delete", "-l", "tier=web", "-l", "zone=1", "--yes", "--wait").code == 0
        left = hostler("vm", "list", "-o", "json").json["items"]
        assert [vm["name"] for vm in left] == ["b", "c"]

    def test_a_label_that_nobody_has_deletes_nothing_and_says_so(self, project):
        result = hostler("vm", "delete", "-l", "tier=none", "--yes")
        assert (result.code, result.error) == (2, f"no VM of project {project} has the label tier=none")

    @pytest.mark.parametrize("words", [(), ("web", "-l", "tier=web")])
    @pytest.mark.usefixtures("project")
    def test_names_and_labels_are_taken_neither_both_nor_none(self, words):
        assert hostler("vm", "create", "web", *SIZE, "--label", "tier=web").code == 0
        result = hostler("vm", "delete", *words, "--yes")
        assert (result.code, result.error) == (2, "VMs are named, or chosen by a label")

    @pytest.mark.usefixtures("project")
    def test_half_a_label_chooses_nobody(self):
        assert hostler("vm", "create", "web", *SIZE, "--label", "tier=web").code == 0
        assert hostler("vm", "delete", "-l", "tier", "--yes").code == 2
        assert hostler("vm", "get", "web").code == 0


def test_events_of_the_whole_fleet_and_of_one_project(project):
    assert hostler("vm", "create", "web", *SIZE, "--wait").code == 0
    every = hostler("events", "-o", "json").json["items"]
    assert {"host.joined", "vm.create", "project.create"} <= {one["kind"] for one in every}
    ours = hostler("events", "--in-project", project, "-o", "json").json["items"]
    assert {one["project"] for one in ours} == {project}
    assert "asked to create web" in {one["text"] for one in ours}
    assert hostler("events").lines[0].split() == ["SEQ", "TIME", "PROJECT", "ABOUT", "KIND", "BY", "WHAT"]
    assert {one["about"] for one in ours if one["kind"].startswith("vm.")} == {"web"}
    assert {one["about"] for one in every if one["kind"] == "host.joined"} >= {"node-1", "node-2"}
    assert hostler("events", "--in-project", "nobody").code == 2


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("host", "forget", "node-1"), "hostler host delete"),
        (("vm", "ls"), "hostler vm list"),
        (("vm", "describe", "x"), "hostler vm get"),
        (("vm", "rm", "x"), "hostler vm delete"),
    ],
)
def test_words_of_other_programs_lead_to_ours(words, meant):
    result = hostler(*words)
    assert (result.code, result.hint) == (2, f"did you mean '{meant}'?")


def test_the_words_of_other_programs_are_no_commands_of_ours():
    assert hostler("policies", "forget").code == 2
    assert hostler("token", "show").hint != "did you mean 'hostler token get'?", "there is no such command"


def test_plan_of_many_vms_counts_them_per_host(project):
    result = hostler("vm", "plan", "worker", "--count", "400", "--cpu", "2", "--memory", "1Gi")
    assert result.code == 1
    assert len(result.lines) < 12
    assert result.lines[0].split() == ["HOST", "VMS", "WHY", "NOT"]
    counted = [line.split(maxsplit=2) for line in result.lines[1:] if line.split()]
    assert [words[:2] for words in counted[:3]] == [["node-1", "4"], ["node-2", "4"], ["node-3", "4"]]
    assert counted[3][:2] == ["-", "388"]
    assert "insufficient cpu" in counted[3][2]
    assert "12 of 400 VMs would be placed" in result.out
    assert "-o wide shows every VM" in result.out
    wide = hostler("vm", "plan", "worker", "--count", "400", "--cpu", "2", "--memory", "1Gi", "-o", "wide")
    assert sum(f"{project}/worker-" in line for line in wide.lines) == 400
