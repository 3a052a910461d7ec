"""``hostler vm``: from create to delete, against a real service with fake hosts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from click.shell_completion import ShellComplete

from hostler.cli.main import cli
from tests.cli.cli_in_process import hostler
from tests.cli.control.command_process import MAIN
from tests.cli.control.undecided_vms import decided_in_time
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server
from tests.wait import wait_for_exit, wait_until

SMALL = ("--cpu", "1", "--memory", "1Gi")
HUGE = ("--cpu", "64", "--memory", "1Gi")
NODES = {"node-1", "node-2", "node-3"}


def vm(*words, **more):
    return hostler("vm", *words, **more)


def created(name="web-0", *words):
    """Create a VM that runs, and return it."""
    result = vm("create", name, *SMALL, *words, "--wait", "300", "-o", "json")
    assert result.code == 0, result.err
    return result.json["vm"]


def test_a_vm_is_created_and_runs(project):
    result = vm("create", "web-0", *SMALL, "--disk", "2Gi", "--label", "tier=web", "--wait")
    assert result.code == 0, result.err
    assert result.out.startswith(f"{project}/web-0 running on node-")
    found = vm("get", "web-0", "-o", "json").json
    assert (found["state"], found["spec"]["disks"], found["spec"]["labels"]) == (
        "running",
        [{"size": "2Gi"}],
        {"tier": "web"},
    )
    assert found["host"] in NODES


def test_without_waiting_it_is_written_down_and_will_happen(project):
    result = vm("create", "web-0", *SMALL)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{project}/web-0 ")


def test_many_equal_ones_are_numbered(project):
    result = vm("create", "worker", *SMALL, "--count", "3")
    assert [line.split()[0] for line in result.lines] == [f"{project}/worker-{number}" for number in range(3)]


def test_a_file_describes_vms_and_options_beat_it(project, tmp_path):
    file = tmp_path / "vm.yaml"
    file.write_text(
        "name: db\nprotected: true\nspec:\n  cpu: 1\n  memory: 1Gi\n  labels: {tier: db}\n"
        "---\nname: cache\nspec: {cpu: 1, memory: 2Gi}\n"
    )
    assert vm("create", "-f", file, "--memory", "512Mi").code == 0
    found = {one["name"]: one for one in vm("list", "-o", "json").json["items"]}
    assert {name: one["spec"]["memory"] for name, one in found.items()} == {"db": "512Mi", "cache": "512Mi"}
    assert found["db"]["protected"]
    assert found["db"]["spec"]["labels"] == {"tier": "db"}


def test_a_spec_alone_comes_from_standard_input(project):
    assert vm("create", "web-0", "-f", "-", stdin='{"cpu": 1, "memory": "1Gi"}').code == 0
    assert vm("get", "web-0").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "a VM needs cpu"),
        (("--cpu", "1"), "a VM needs memory"),
        (("--cpu", "x", "--memory", "1Gi"), "cpu: "),
        ((*SMALL, "--disk", "image=x"), "--disk "),
        ((*SMALL, "--disk", "2Gi,color=red"), "--disk "),
        ((*SMALL, "--label", "tier"), "--label "),
        ((*SMALL, "--device", "gpu=many"), "--device "),
        ((*SMALL, "--strategy", "bestfit"), "there is no strategy 'bestfit'"),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_can_never_be_right_is_refused(words, message):
    result = vm("create", "web-0", *words)
    assert result.code == 2
    assert result.error.startswith(message)
    assert vm("list", "-o", "json").json == {"items": []}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--cpu", "1", "--memory", "4096"), "did you mean 4096Mi? 1Mi to "),
        ((*SMALL, "--disk", "20"), "did you mean 20Gi? 1Mi to "),
        (("--cpu", "1", "--memory", "4Ki"), "1Mi to "),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_number_without_its_unit_is_understood_as_what_was_meant(words, hint):
    result = vm("create", "web-0", *words)
    assert result.code == 2
    assert result.error.endswith(" is out of range")
    assert result.hint.startswith(hint)


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (("--cpu", "2x", "--memory", "1Gi"), "cpu: amount '2x' is not a quantity", 'write it as 2, "1500m" or "0.5"'),
        (
            ("--cpu", "1", "--memory", "2x"),
            "memory: amount '2x' is not a quantity",
            'write it as "2Gi", "512Mi" or a number of bytes',
        ),
    ],
)
@pytest.mark.usefixtures("project")
def test_what_is_no_amount_is_refused_with_one_of_that_resource(words, error, hint):
    result = vm("create", "web-0", *words)
    assert (result.code, result.error, result.hint) == (2, error, hint)


@pytest.mark.usefixtures("project")
def test_a_name_is_the_first_thing_that_a_vm_needs():
    assert vm("create").error == "the VM needs a name"
    assert vm("create", "no name").error == "the VM's name: 'no name' is not a name"


@pytest.mark.usefixtures("project")
def test_an_unknown_key_in_a_file_is_named_with_its_line(tmp_path):
    file = tmp_path / "vm.yaml"
    file.write_text("name: db\nspec:\n  cpus: 1\n  memory: 1Gi\n")
    result = vm("create", "-f", file)
    assert result.code == 2
    assert "vm.yaml:3" in result.error
    assert "cpu" in result.hint


def test_a_name_is_taken_once(project):
    vm("create", "web-0", *SMALL)
    result = vm("create", "web-0", *SMALL)
    assert (result.code, "web-0" in result.error) == (4, True)


def test_what_was_made_before_a_refusal_is_reported(project):
    vm("create", "worker-1", *SMALL)
    result = vm("create", "worker", *SMALL, "--count", "3")
    assert result.code == 4
    assert result.err.startswith("note: 1 of 3 VMs were created, the last is worker-0\nerror: ")


def test_a_vm_that_fits_nowhere_waits_and_says_why(project):
    assert vm("create", "huge", *HUGE).code == 0
    wait_until(lambda: bool(vm("get", "huge", "-o", "json").json["why"]))
    assert "0 of 3 hosts" in vm("get", "huge").out
    assert "0 of 3 hosts" in vm("queue").out
    result = vm("explain", "huge")
    assert result.code == 0
    assert result.out.startswith(f"{project}/huge (cpu 64, memory 1Gi) fits nowhere: 0 of 3 hosts: 3 insufficient cpu")
    assert "HOST THAT DOES NOT FIT" in result.out


def test_waiting_for_one_that_is_not_placed_ends_with_1(project):
    result = decided_in_time(lambda span_s: vm("create", f"huge-{span_s}", *HUGE, "--wait", f"{span_s}"))
    assert result.code == 1
    name, _, why = result.error.partition(" is not placed: ")
    assert name.startswith(f"{project}/huge-")
    assert why


def test_waiting_for_many_tells_of_each_also_where_one_is_not_placed(project, tmp_path):
    def create(span_s):
        file = tmp_path / "vms.yaml"
        file.write_text(
            f"name: huge-{span_s}\nspec: {{cpu: 64, memory: 1Gi}}\n---\n"
            f"name: one-{span_s}\nspec: {{cpu: 1, memory: 1Gi}}\n---\n"
            f"name: vast-{span_s}\nspec: {{cpu: 99, memory: 1Gi}}\n"
        )
        return vm("create", "-f", file, "--wait", f"{span_s}")

    result = decided_in_time(create)
    assert result.code == 1
    huge, one, vast = (line.split()[0] for line in result.lines)
    for name, kind in ((huge, "huge"), (one, "one"), (vast, "vast")):
        assert name.startswith(f"{project}/{kind}-")
    assert result.error.startswith(f"{huge} is not placed: ")
    assert result.error.endswith(" more of 3)")
    result = vm("stop", one, "--wait", "300", "-o", "json")
    assert (result.code, result.json["vm"]["name"]) == (0, one.partition("/")[2])


@pytest.mark.usefixtures("project")
def test_now_or_not_at_all():
    result = vm("create", "huge", *HUGE, "--fail-unplaced")
    assert result.code == 1
    assert result.error.startswith("no host has room for VM huge: 0 of 3 hosts")
    assert "--fail-unplaced" in result.hint
    assert vm("list", "-o", "json").json == {"items": []}
    assert vm("create", "small", *SMALL, "--fail-unplaced").code == 0


def test_vms_are_named_by_name_project_and_id(project):
    found = created()
    for word, more in ((f"{project}/web-0", ("-p", "default")), (found["id"], ("-p", "default")), ("web-0", ())):
        assert vm("get", word, *more, "-o", "json").json["id"] == found["id"]
    result = vm("get", "web-0", "-p", "default")
    assert (result.code, result.error) == (2, "there is no VM 'web-0' in project default")


def test_lists_are_filtered(project):
    one = created("web-0", "--label", "tier=web", "--label", "zone=a")
    vm("create", "huge", *HUGE, "--label", "tier=db")

    def names(*words):
        return sorted(item["name"] for item in vm("list", *words, "-o", "json").json["items"])

    assert names() == ["huge", "web-0"]
    assert names("--state", "running") == ["web-0"]
    assert names("-l", "tier=web", "-l", "zone=a") == ["web-0"]
    assert names("-l", "tier=web", "-l", "zone=b") == []
    assert names("--host", one["host"]) == ["web-0"]
    assert names("--name", "huge") == ["huge"]
    assert names("--limit", "1") == ["huge"] or names("--limit", "1") == ["web-0"]
    assert set(names()) <= set(names("-A"))


def test_tables_have_rows_and_wide_ones_more(project):
    created()
    assert vm("list").row(project)[1:3] == ["web-0", "running"]
    assert "SETTLED" not in vm("list").out
    assert "SETTLED" in vm("list", "-o", "wide").out
    assert vm("list", "-o", "yaml").out.startswith("items:\n")


def test_power_goes_on_and_off(project):
    created()
    for verb, state in (
        ("stop", "stopped"), ("start", "running"), ("pause", "paused"), ("resume", "running"), ("restart", "running"),
    ):  # fmt: skip
        result = vm(verb, "--wait", "web-0")
        assert result.code == 0, result.err
        assert result.out.startswith(f"{project}/web-0: {verb} done; it is {state}")


def test_a_verb_in_the_wrong_state_is_a_conflict(project):
    created()
    vm("stop", "web-0", "--wait", "300")
    result = vm("pause", "web-0")
    assert result.code == 4
    assert result.error


def test_a_resize_that_waits_shows_both_sizes_and_says_why_in_totals(project):
    found = created()
    assert vm("resize", "web-0", "--cpu", "100").code == 0
    wait_until(lambda: vm("get", "web-0", "-o", "json").json["why"] != "")
    shown = vm("get", "web-0").out
    assert "100 wanted, 1 now" in shown
    assert "When lost   keep" in shown
    told = vm("explain", "web-0").out
    assert "of 100 missing" in told
    assert "not its host" in told
    assert "named" not in told
    taken_back = vm("resize", "web-0", "--cpu", "1", "--wait", "300")
    assert taken_back.out == f"{project}/web-0: resize done; it is running on {found['host']}\n"


def test_a_vm_is_resized_and_labelled(project):
    created("web-0", "--label", "old=1")
    result = vm(
        "resize", "web-0", "--cpu", "2", "--label", "tier=gold", "--label", "old-", "--wait", "300", "-o", "json"
    )
    assert result.code == 0, result.err
    spec = result.json["vm"]["spec"]
    assert (spec["cpu"], spec["labels"]) == ("2", {"tier": "gold"})
    assert vm("resize", "web-0").error == "nothing to change"


def test_a_vm_moves_to_another_host(project):
    there = created()["host"]
    result = vm("migrate", "web-0", "--wait", "300", "-o", "json")
    assert result.code == 0, result.err
    assert result.json["vm"]["host"] in NODES - {there}


def test_delete_asks_unless_it_is_reported_not_to(project):
    created()
    result = vm("delete", "web-0")
    assert (result.code, result.hint) == (2, "--yes confirms it")
    assert vm("get", "web-0").code == 0
    result = vm("delete", "web-0", "--yes", "--wait")
    assert (result.code, result.out) == (0, f"{project}/web-0: delete done\n")
    assert vm("get", "web-0").code == 2


def test_several_go_at_once_and_none_where_one_is_mistyped(project):
    vm("create", "worker", *SMALL, "--count", "2")
    assert vm("delete", "worker-0", "wroker-1", "--yes").code == 2
    assert len(vm("list", "-o", "json").json["items"]) == 2
    assert vm("delete", "worker-0", "worker-1", "--yes", "--wait", "300").code == 0
    assert vm("list", "-o", "json").json["items"] == []


def test_a_protected_vm_stays(project):
    vm("create", "db", *SMALL, "--protected", "--wait", "300")
    result = vm("delete", "db", "--yes")
    assert result.code == 4
    assert vm("resize", "db", "--no-protected").code == 0
    assert vm("delete", "db", "--yes").code == 0


def test_an_explanation_is_that_of_the_other_command(project):
    host = created()["host"]
    result = vm("explain", "web-0")
    assert result.code == 0, result.err
    assert result.out.startswith(
        f"{project}/web-0 (cpu 1, memory 1Gi) already runs on {host}. 3 of 3 hosts would take it"
    )
    data = vm("explain", "web-0", "-o", "json").json
    assert (data["chosen"], sorted(data["feasible"])) == (host, sorted(NODES))
    assert {"decision", "verdicts", "cure", "seq"} <= set(data)


def test_events_say_what_happened(project):
    created()
    result = vm("events", "web-0")
    assert "vm.create" in result.out
    assert "placed on node-" in result.out


def test_events_speak_of_vms_and_say_nothing_twice(project):
    created()
    vm("stop", "web-0", "--wait", "300")
    words = vm("events", "web-0").out
    assert not [word for word in ("guest", "bind", "evict") if word in words]
    [line] = [line for line in vm("events", "web-0").lines if "vm.stop " in line]
    assert line.count("vm.stop") == 1
    said = [line.split() for line in vm("events", "web-0").lines if "agent of node-" in line]
    assert [words[6] for words in said if words[2] in ("vm.running", "vm.stopped")] == ["running", "stopped"]
    kinds = {event["kind"] for event in vm("events", "web-0", "-o", "json").json["items"]}
    assert {"vm.waiting", "vm.placed", "vm.stop"} <= kinds


def test_a_vm_that_is_not_decided_yet_may_be_asked_for_again(project):
    """Who asks in the moment after the create; a server that says so stands in, since no test meets that moment."""
    found = created()
    undecided = ScriptedAnswer(404, {"title": "No", "status": 404, "code": "not_found", "detail": "nothing is decided"})
    for power, message in (("running", "is not decided yet"), ("absent", "is being deleted")):
        listed = ScriptedAnswer(body={"items": [{**found, "power": power}], "next": ""})
        with scripted_server(listed, undecided) as script:
            result = vm("explain", "web-0", "--server", script.address)
        assert (result.code, result.error) == (3, f"{project}/web-0 {message}")


def test_a_plan_changes_nothing(project):
    result = vm("plan", "worker", "--count", "2", *SMALL)
    assert result.code == 0, result.err
    assert result.lines[-1] == "2 of 2 VMs would be placed, 0 stopped for them."
    result = vm("plan", *HUGE, "-o", "json")
    assert result.code == 1
    assert result.json["placements"][0]["host"] is None
    assert vm("list", "-o", "json").json["items"] == []


@pytest.mark.usefixtures("project")
def test_a_plan_may_do_without_a_host():
    words = [word for name in ("node-1", "node-2") for word in ("--without-host", name)]
    [placed] = vm("plan", *SMALL, *words, "-o", "json").json["placements"]
    assert placed["host"] == "node-3"


@pytest.mark.usefixtures("project")
def test_candidates_are_shown_with_scores_or_reasons():
    result = vm("candidates", *SMALL)
    assert result.out.startswith("3 of 3 hosts would take it; it would go to node-")
    result = vm("candidates", *HUGE)
    assert result.code == 1
    assert "insufficient cpu: 56 of 64 missing" in result.out


def test_names_of_vms_are_completed(project):
    vm("create", "worker", *SMALL, "--count", "2")
    shell = ShellComplete(cli, {}, "hostler", "_HOSTLER_COMPLETE")
    assert [found.value for found in shell.get_completions(["vm", "get"], "wor")] == ["worker-0", "worker-1"]
    assert [found.value for found in shell.get_completions(["vm", "stop", "-p", "default"], f"{project}/w")] == [
        f"{project}/worker-0",
        f"{project}/worker-1",
    ]


@contextmanager
def going_on(*words):
    """Run a command that does not end by itself, yield its lines, and interrupt it."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "vm", *words], stdout=subprocess.PIPE, text=True, env=os.environ,
        # A shell starts background jobs with interrupts ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        yield process.stdout
        process.send_signal(signal.SIGINT)
        assert wait_for_exit(process) == 130
    finally:
        process.stdout.close()
        if process.poll() is None:
            process.kill()
            process.wait()


def test_watching_shows_changes_until_it_is_interrupted(project):
    with going_on("list", "--watch", "-o", "json") as lines:
        vm("create", "web-0", *SMALL, "--wait", "300")
        for line in lines:
            state = json.loads(line)["state"]
            if state == "running":
                vm("delete", "web-0", "--yes")
            if state == "gone":
                break


def test_watching_writes_rows_below_each_other(project):
    created()
    with going_on("list", "--watch") as lines:
        assert next(lines).split() == ["PROJECT", "NAME", "STATE", "HOST", "WHY"]
        assert next(lines).split()[:3] == [project, "web-0", "running"]
        vm("stop", "web-0")
        assert any(line.split()[2] == "stopped" for line in lines)


def test_events_are_followed(project):
    created()
    with going_on("events", "web-0", "--follow", "--tail", "100") as lines:
        assert any("placed on node-" in line for line in lines)
        vm("stop", "web-0")
        assert any("vm.stop" in line for line in lines)


def test_events_are_followed_from_the_end_on(project):
    created()
    with going_on("events", "web-0", "--follow", "--kind", "vm") as lines:
        seen = threading.Event()

        def change():
            """Change the VM again and again, because nothing says when the stream has begun."""
            while not seen.wait(1.0):
                vm("resize", "web-0", "--label", f"at=t{time.monotonic_ns()}")

        asking = threading.Thread(target=change)
        asking.start()
        first = next(lines)
        seen.set()
        asking.join()
    assert "vm.resize" in first


def test_events_are_chosen_by_time_kind_and_number(project):
    created()
    every = vm("events", "web-0", "-o", "json").json["items"]
    assert vm("events", "web-0", "--tail", "2", "-o", "json").json["items"] == every[-2:]
    assert vm("events", "web-0", "--since", "1h", "-o", "json").json["items"] == every
    placed = vm("events", "web-0", "--kind", "vm.placed", "-o", "json").json["items"]
    assert [one["kind"] for one in placed] == ["vm.placed"]
    wrong = vm("events", "web-0", "--since", "yesterday")
    assert (wrong.code, wrong.error) == (2, "--since: 'yesterday' is neither a duration nor a time")
    assert "10m" in wrong.hint


def test_a_wrong_key_is_reported_so(project, tmp_path):
    from tests.cli.control.command_process import secret

    result = vm("list", "--key-file", secret(tmp_path / "wrong.key", "nonsense"))
    assert (result.code, "key" in result.error) == (2, True)
