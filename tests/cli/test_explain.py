"""``hostler explain``: the decision at the moment it was made, in words and as an object."""

from __future__ import annotations

import json

import msgspec
import pytest

from hostler.engine import BUILT_IN, Engine
from hostler.engine.journals.journal import Recorder
from hostler.model import Evict, EvictFailed, Guest, GuestArrived, GuestChanged, GuestLeft, GuestSpec, Host, HostJoined
from tests.cli.cli_in_process import DEMO, DEMO_FILES, hostler, write

WITH_WAREHOUSE = (*DEMO_FILES, "-f", DEMO / "warehouse.yaml")


def test_rejection_shows_near_misses_cure_and_wake_events():
    result = hostler("explain", *WITH_WAREHOUSE, "warehouse")
    assert result.code == 0
    assert result.lines[0].startswith("warehouse (cpu 20, memory 96Gi) fits nowhere: 0 of 12 hosts: 9 insufficient cpu")
    near = result.lines.index(next(line for line in result.lines if line.startswith("HOST THAT DOES NOT FIT")))
    assert result.lines[near + 1].split(maxsplit=1) == ["north-gpu", "untolerated taint gpu:NoSchedule"]
    assert "insufficient cpu: 10 of 20 missing; insufficient memory: 44Gi of 96Gi missing" in result.out
    assert "It would fit on north-gpu after the smallest change: tolerate gpu:NoSchedule." in result.lines
    assert "  a host joins" in result.lines


def test_placement_shows_scores_of_fitting_hosts_best_first():
    result = hostler("explain", *DEMO_FILES, "web-3")
    assert result.lines[:2] == [
        "web-3 (cpu 1, memory 2Gi) goes to south-3, score 468: the best of 9 that fit, of 12 hosts;",
        "  policy spread.",
    ]
    assert result.lines[3].split() == [
        "HOST",
        "THAT",
        "FITS",
        "TOTAL",
        "least_allocated",
        "balanced",
        "preferred_taints",
    ]
    assert result.lines[4].split() == ["south-3", "*", "468", "94", "74", "300"]
    totals = [int(line.split()[-4]) for line in result.lines[4:13]]
    assert totals == sorted(totals, reverse=True)


def test_wide_shows_all_hosts():
    short, wide = (hostler("explain", *WITH_WAREHOUSE, "warehouse", "-o", o) for o in ("table", "wide"))
    assert "… and 2 more; -o wide shows all" in short.lines
    assert all(f"\n{host} " in wide.out for host in ("south-old", "north-edge", "north-0"))


def test_the_explanation_is_of_the_moment_of_the_decision_not_of_the_end(tmp_path):
    body = """\
hosts: [{name: a, capacity: {cpu: 4}}]
guests: [{name: first, requests: {cpu: 3}}, {name: late, requests: {cpu: 2}}]
"""
    file = write(tmp_path / "f.yaml", body)
    first = hostler("explain", "-f", file, "first", "-o", "json").json
    late = hostler("explain", "-f", file, "late", "-o", "json").json
    assert (first["chosen"], first["feasible"], first["as_of"]) == ("a", ["a"], "decision 1")
    assert (late["chosen"], late["feasible"], late["as_of"]) == (None, [], "decision 2")
    assert late["verdicts"][0]["failures"][0]["missing"] == 1000
    assert late["cure"]["changes"][0]["kind"] == "reduce_request"


def test_json_scores_of_feasible_hosts_add_up_to_the_total():
    data = hostler("explain", *DEMO_FILES, "report-0", "-o", "json").json
    assert data["feasible"] == list(data["scores"])
    assert data["chosen"] == data["decision"]["host"] == data["feasible"][0]
    totals = {verdict["host"]: verdict.get("total") for verdict in data["verdicts"]}
    for host, scores in data["scores"].items():
        assert sum(scores.values()) == totals[host]
    assert data["scores"][data["chosen"]]["preferred_hosts"] == 200
    assert data["decision"]["total"] == totals[data["chosen"]]


def test_yaml_is_the_same_object(tmp_path):
    from hostler.config import parse_documents

    as_json = hostler("explain", *DEMO_FILES, "web-0", "-o", "json").json
    as_yaml = hostler("explain", *DEMO_FILES, "web-0", "-o", "yaml").out
    assert parse_documents(as_yaml.encode(), "x")[0].data == as_json


@pytest.mark.parametrize("policy", ["spread", "pack", "fgd", "least_loaded", "gpu_packing", "round_robin", "random"])
def test_what_is_explained_is_what_place_decides(policy):
    placed = hostler("place", *DEMO_FILES, "--policy", policy, "-o", "json").json
    for decision in placed["decisions"][::5]:
        data = hostler("explain", *DEMO_FILES, decision["uid"], "--policy", policy, "-o", "json").json
        assert data["decision"] == decision
        assert len(data["feasible"]) == decision["feasible"]
        if decision["host"]:
            assert data["chosen"] in data["feasible"]
        if decision["host"] and policy not in ("round_robin", "random"):
            assert data["chosen"] == data["feasible"][0]


def test_a_guest_that_already_runs_is_explained_without_itself(tmp_path):
    body = """\
hosts: [{name: a, capacity: {cpu: 4}}, {name: b, capacity: {cpu: 1}}]
guests: [{name: g, host: a, requests: {cpu: 3}}]
"""
    file = write(tmp_path / "f.yaml", body)
    result = hostler("explain", "-f", file, "g")
    assert result.lines[0] == "g (cpu 3) already runs on a. 1 of 2 hosts would take it, by policy spread."
    data = hostler("explain", "-f", file, "g", "-o", "json").json
    assert (data["chosen"], data["feasible"]) == ("a", ["a"])


def test_decisions_that_wait_for_an_answer_are_explained_too(tmp_path):
    body = (
        "policies: [{name: asks, ask: {name: oracle, ignorable: true}}]\n"
        "hosts: [{name: a, capacity: {guests: 2}}]\n"
        "guests: [{name: x, policy: asks}, {name: y}, {name: z}]\n"
    )
    file = write(tmp_path / "f.yaml", body)
    placed = hostler("place", "-f", file, "-o", "json").json
    for decision in placed["decisions"]:
        data = hostler("explain", "-f", file, decision["guest"], "-o", "json").json
        assert data["decision"] == decision
        assert len(data["feasible"]) == decision["feasible"]


class TestNames:
    """A guest is named as its owner does."""

    @pytest.fixture
    def file(self, tmp_path):
        body = """\
hosts: [{name: a}]
guests:
- {name: web, namespace: one}
- {name: web, namespace: two}
- {name: solo, namespace: two, uid: "u-1"}
"""
        return write(tmp_path / "f.yaml", body)

    @pytest.mark.parametrize("name", ["solo", "two/solo", "u-1"])
    def test_by_name_by_namespace_and_name_or_by_uid(self, file, name):
        assert hostler("explain", "-f", file, name, "-o", "json").json["uid"] == "u-1"

    def test_an_ambiguous_name_asks_for_the_namespace(self, file):
        result = hostler("explain", "-f", file, "web")
        assert result.code == 2
        assert result.error == "2 guests are called 'web'"
        assert result.hint == "write one of one/web, two/web"

    def test_an_unknown_name_suggests_the_nearest(self, file):
        result = hostler("explain", "-f", file, "two/slo")
        assert result.code == 2
        assert result.hint == "did you mean 'two/solo'?"


class TestFromJournal:
    """A recorded run explains itself."""

    @pytest.fixture
    def journal(self, tmp_path):
        path = tmp_path / "run.journal"
        hostler("place", *WITH_WAREHOUSE, "--policy", "pack", "--journal", path)
        return path

    @pytest.mark.parametrize("guest", ["warehouse", "web-7", "train-1", "billing"])
    def test_the_same_as_from_files(self, journal, guest):
        of_files = hostler("explain", *WITH_WAREHOUSE, guest, "--policy", "pack", "-o", "json").json
        of_journal = hostler("explain", "--journal", journal, guest, "-o", "json").json
        if guest == "billing":  # it ran already: there is no decision to go back to, only the end
            assert of_journal["chosen"] == of_files["chosen"]
        else:
            assert of_journal == of_files

    def test_an_unknown_guest_is_an_error(self, journal):
        result = hostler("explain", "--journal", journal, "wharehouse")
        assert result.code == 2
        assert result.hint == "did you mean 'warehouse'?"

    def test_files_and_a_journal_do_not_go_together(self, journal):
        assert hostler("explain", *DEMO_FILES, "--journal", journal, "web-0").code == 2
        assert hostler("explain", "web-0").code == 2
        assert hostler("explain", "--journal", journal, "--policy", "pack", "web-0").code == 2


def test_the_object_holds_every_host_once():
    data = hostler("explain", *DEMO_FILES, "web-0", "-o", "json").json
    names = [verdict["host"] for verdict in data["verdicts"]]
    assert len(names) == len(set(names)) == 12
    assert json.dumps(data)


def test_decisions_carry_the_namespace_of_their_guest(tmp_path):
    body = "hosts: [{name: a}]\nguests: [{name: g, namespace: team}]\n"
    file = write(tmp_path / "f.yaml", body)
    assert hostler("explain", "-f", file, "g", "-o", "json").json["decision"]["namespace"] == "team"
    assert hostler("place", "-f", file, "-o", "json").json["decisions"][0]["namespace"] == "team"


def test_a_host_that_is_full_has_too_many_guests(tmp_path):
    body = (
        "hosts: [{name: a, capacity: {cpu: 8, guests: 1}}]\n"
        "guests: [{name: one, requests: {cpu: 1}, host: a}, {name: two, requests: {cpu: 1}}]\n"
    )
    found = hostler("explain", "-f", write(tmp_path / "f.yaml", body), "two")
    assert found.lines[0].startswith("two (cpu 1) fits nowhere: 0 of 1 host: 1 too many guests")
    assert found.row("a") == ["a", "too", "many", "guests"]


def journal_of(tmp_path, *more):
    """Write the journal of a run on two hosts: ``first`` is placed, ``huge`` is not, ``moved`` was there; then more."""
    spec = GuestSpec(requests=(("cpu", 1000),))
    path = tmp_path / "run.journal"
    with path.open("wb") as stream:
        recorder = Recorder(Engine([BUILT_IN["pack"]], 0, 0), stream.write)
        for name in ("a", "b"):
            recorder.apply(HostJoined(host=Host(name=name, uid=name, capacity=(("cpu", 4000),))))
        recorder.apply(GuestArrived(guest=Guest(name="moved", uid="u0", spec=spec, host="b")))
        recorder.apply(GuestArrived(guest=Guest(name="first", uid="u1", spec=spec)))
        recorder.apply(GuestArrived(guest=Guest(name="huge", uid="u2", spec=GuestSpec(requests=(("cpu", 9000),)))))
        recorder.step(1)
        for uid in ("u0", "u1", "u2"):
            recorder.apply(GuestLeft(uid=uid, at=2))
        for event in more:
            recorder.apply(event)
        recorder.step(3)
    return path


def test_a_guest_that_left_is_explained_by_its_last_decision(tmp_path):
    path = journal_of(tmp_path)
    placed = hostler("explain", "--journal", path, "first").lines
    assert placed[0].startswith("first (cpu 1) goes to b, score ")
    assert placed[1] == "It left the run later, by entry 8 of 10 entries."
    refused = hostler("explain", "--journal", path, "huge").lines
    assert refused[0].startswith("huge (cpu 9) fits nowhere: 0 of 2 hosts: 2 insufficient cpu")
    assert hostler("explain", "--journal", path, "moved").lines[0].startswith("moved (cpu 1) already runs on b.")
    assert hostler("explain", "--journal", path, "nobody").code == 2


def test_of_guests_with_one_name_the_newest_is_explained(tmp_path):
    again = Guest(name="first", uid="u9", spec=GuestSpec(requests=(("cpu", 2000),)))
    path = journal_of(tmp_path, GuestArrived(guest=again))
    assert hostler("explain", "--journal", path, "first").lines[0].startswith("first (cpu 2) goes to")
    assert hostler("explain", "--journal", path, "u1").lines[0].startswith("first (cpu 1) goes to")
    path = journal_of(tmp_path, GuestArrived(guest=again), GuestLeft(uid="u9", at=2))
    assert hostler("explain", "--journal", path, "first").lines[0].startswith("first (cpu 2) ")


def journal_of_a_watcher(tmp_path, cpu, priority, bound_to):
    """Write the journal of a run on two hosts of 4 cpus, one full of low priority; another program binds ``urgent``."""
    path = tmp_path / "watched.journal"
    urgent = Guest(name="urgent", uid="u", spec=GuestSpec(requests=(("cpu", cpu),), priority=priority))
    batch = Guest(name="batch", uid="b", spec=GuestSpec(requests=(("cpu", 4000),)), host="a")
    with path.open("wb") as stream:
        recorder = Recorder(Engine([BUILT_IN["kubernetes"]], 0, 0), stream.write)
        recorder.apply(HostJoined(host=Host(name="a", uid="a", capacity=(("cpu", 4000), ("guests", 9)))))
        recorder.apply(HostJoined(host=Host(name="b", uid="b", capacity=(("cpu", 2000), ("guests", 9)))))
        recorder.apply(GuestArrived(guest=batch))
        recorder.apply(GuestArrived(guest=urgent))
        evictions = [action for action in recorder.step(1) if isinstance(action, Evict)]
        for action in evictions:
            recorder.apply(EvictFailed(uid=action.uid, reason="only watching", at=2))
        if evictions:
            recorder.apply(GuestLeft(uid="b", at=3))
        recorder.apply(GuestChanged(guest=msgspec.structs.replace(urgent, host=bound_to, version=2), at=3))
        recorder.step(4)
    return path


def test_guest_bound_by_another_scheduler_has_one_consistent_verdict(tmp_path):
    found = hostler("explain", "--journal", journal_of_a_watcher(tmp_path, 3000, 100, "a"), "urgent")
    assert found.lines[0] == "urgent (cpu 3) was bound to a by another scheduler;"
    assert found.lines[1] == "  policy kubernetes would have evicted batch on a for it."
    assert "hostler place" not in found.out
    assert "It would fit on" not in found.out
    assert "It is tried again" not in found.out


def test_guest_bound_elsewhere_is_explained_by_the_choice_of_the_policy(tmp_path):
    found = hostler("explain", "--journal", journal_of_a_watcher(tmp_path, 1000, 0, "a"), "urgent")
    assert found.lines[0] == "urgent (cpu 1) was bound to a by another scheduler;"
    assert found.lines[1].startswith("  policy kubernetes would have chosen b, score ")


def test_guest_that_the_policy_rejects_is_said_to_be_placed_by_another(tmp_path):
    path = journal_of_a_watcher(tmp_path, 9000, 0, "a")
    found = hostler("explain", "--journal", path, "urgent")
    assert found.lines[0] == "urgent (cpu 9) was bound to a by another scheduler;"
    assert found.lines[1] == "  policy kubernetes would not have placed it: 0 of 2 hosts: 2 insufficient cpu."
    assert hostler("explain", "--journal", path, "urgent", "-o", "json").json["bound_to"] == "a"


def test_hosts_without_a_device_and_with_too_few_of_them_are_told_apart(tmp_path):
    body = """\
hosts: [{name: a}, {name: b, devices: [{kind: gpu}]}]
guests: [{name: g, devices: [{kind: gpu, count: 2}]}]
"""
    found = hostler("explain", "-f", write(tmp_path / "f.yaml", body), "g")
    assert found.lines[0].startswith("g (2 gpu) fits nowhere: 0 of 2 hosts: 1 insufficient gpu, 1 no device gpu; ")
    assert found.row("a")[1:] == ["no", "device", "gpu"]
