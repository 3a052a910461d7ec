"""``hostler place``: what is printed, what can be fed back, and where policies come from."""

from __future__ import annotations

import json

import pytest

from hostler.config import write_yaml
from hostler.engine import BUILT_IN
from hostler.queries.runs import NO_ANSWER
from tests.cli.cli_in_process import DEMO, DEMO_FILES, hostler, write

TWO_HOSTS = """\
hosts:
- {name: a, capacity: {cpu: 4, memory: 8Gi}}
- {name: b, capacity: {cpu: 4, memory: 8Gi}, taints: [{key: gpu}]}
"""


@pytest.fixture
def fleet(tmp_path):
    """Return a function that writes a fleet of two hosts with some guests."""

    def make(guests: str, extra: str = ""):
        return write(tmp_path / "fleet.yaml", f"{extra}{TWO_HOSTS}guests:\n{guests}")

    return make


def test_guests_are_placed_and_summed_up(fleet):
    result = hostler("place", "-f", fleet("- {name: g, count: 2, requests: {cpu: 1, memory: 2Gi}}\n"))
    assert result.code == 0
    assert result.err == ""
    assert result.lines == [
        "GUEST  HOST",
        "g-0    a",
        "g-1    a",
        "",
        "2 guests: 2 placed, 0 not placed; 1 of 2 hosts used; cpu 25%, memory 25%; policy spread",
    ]


def test_unplaced_guest_gets_reasons_in_one_line_and_exit_code_1(fleet):
    result = hostler("place", "-f", fleet("- {name: big, requests: {cpu: 5}}\n"))
    assert result.code == 1
    assert "0 of 2 hosts: 1 insufficient cpu, 1 untolerated taint gpu:NoSchedule" in result.out
    assert result.row("big")[:2] == ["big", "-"]
    assert "1 guest: 0 placed, 1 not placed" in result.lines[-1]


def test_without_hosts_the_reason_says_so(tmp_path):
    result = hostler("place", "-f", write(tmp_path / "f.yaml", "guests: [{name: g}]\n"))
    assert result.code == 1
    assert "there are no hosts" in result.out


def test_without_pending_guests_only_the_summary_is_printed(fleet):
    result = hostler("place", "-f", fleet("- {name: g, host: a}\n"))
    assert result.code == 0
    assert result.lines == [
        "1 guest: 0 placed, 1 already placed, 0 not placed; 1 of 2 hosts used;",
        "  cpu 0%, memory 0%; policy spread",
        "nothing to place; -o wide shows all guests",
    ]


def test_wide_adds_scores_counts_requests_and_running_guests(fleet):
    guests = "- {name: old, host: b}\n- {name: new, requests: {cpu: 500m, memory: 1.5Gi}}\n"
    result = hostler("place", "-f", fleet(guests), "-o", "wide")
    assert result.lines[0].split() == ["GUEST", "HOST", "SCORE", "FEASIBLE", "REQUESTS"]
    assert result.row("old") == ["old", "b", "no", "requests", "(already", "there)"]
    assert result.row("new")[3:] == ["1/2", "cpu", "500m,", "memory", "1536Mi"]


def test_json_is_a_fleet_with_decisions_and_a_summary(fleet):
    guests = "- {name: g, requests: {cpu: 1, memory: 2Gi}}\n- {name: big, requests: {cpu: 5}}\n"
    data = hostler("place", "-f", fleet(guests), "-o", "json").json
    assert data["apiVersion"] == "hostler/v1"
    assert data["policy"] == "spread"
    assert [guest.get("host") for guest in data["guests"]] == ["a", None]
    placed, refused = data["decisions"]
    assert placed["guest"] == "g"
    assert placed["uid"] == "default/g"
    assert placed["host"] == "a"
    assert placed["feasible"] == 1
    assert isinstance(placed["total"], int)
    assert refused["host"] is None
    assert refused["hosts"] == 2
    assert sum(reason["hosts"] for reason in refused["reasons"]) == 2
    assert data["summary"]["placed"] == 1
    assert data["summary"]["not_placed"] == 1
    assert data["summary"]["cpu"] == {"used": 1000, "total": 8000, "percent": 12.5}


@pytest.mark.parametrize("output", ["json", "yaml"])
@pytest.mark.parametrize("policy", ["spread", "fgd", "random"])
def test_output_fed_back_moves_nothing(tmp_path, output, policy):
    first = hostler("place", *DEMO_FILES, "--policy", policy, "-o", output)
    assert first.code == 0
    (tmp_path / "out").write_text(first.out)
    second = hostler("place", "-f", tmp_path / "out", "-o", "json")
    assert second.code == 0
    assert second.json["decisions"] == []
    assert second.json["policy"] == policy
    before = hostler("place", *DEMO_FILES, "--policy", policy, "-o", "json").json
    assert second.json["guests"] == before["guests"]
    assert second.json["hosts"] == before["hosts"]


def test_a_refused_guest_is_still_pending_when_the_output_is_fed_back(fleet):
    first = hostler("place", "-f", fleet("- {name: big, requests: {cpu: 5}}\n"), "-o", "json")
    second = hostler("place", "-f", "-", stdin=first.out)
    assert (first.code, second.code) == (1, 1)


def test_guests_keep_the_devices_that_they_name_in_any_order(tmp_path):
    body = """\
hosts: [{name: a, devices: [{kind: gpu, count: 2}]}]
guests:
- {name: vague, devices: [{kind: gpu}], host: a}
- {name: exact, devices: [{kind: gpu}], host: a, on_devices: [0]}
"""
    data = hostler("place", "-f", write(tmp_path / "f.yaml", body), "-o", "json").json
    assert {guest["name"]: guest["on_devices"] for guest in data["guests"]} == {"vague": [1], "exact": [0]}


NODE = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "4", pods: "10"}}
---
"""


def pod(name, node=""):
    spec = {"nodeName": node, "containers": [{"name": "main"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}) + "\n---\n"


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ({"half": "gone"}, "pod default/half does not count: its node gone is not there"),
        (
            {"half": "gone", "other": "too"},
            "pod default/half and 1 more do not count: their nodes, such as gone, are not there",
        ),
    ],
)
def test_pods_of_deleted_nodes_are_noted_and_the_others_placed(tmp_path, lost, told):
    text = NODE + pod("runs", "a") + "".join(pod(*one) for one in lost.items()) + pod("waits")
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    result = hostler("place", "-f", path, "-o", "json")
    assert result.code == 0
    assert result.err == f"note: {path}: {told}\n"
    assert {guest["name"]: guest["host"] for guest in result.json["guests"]} == {"runs": "a", "waits": "a"}


def test_pods_of_nodes_are_refused_where_the_nodes_were_forgotten(tmp_path):
    (tmp_path / "objects.yaml").write_text(pod("runs", "a"))
    result = hostler("place", "-f", tmp_path / "objects.yaml")
    assert result.code == 2
    assert "guest 'runs' runs on host 'a', which is not declared" in result.err


def test_fgd_measures_by_the_guests_in_the_input():
    assert hostler("place", *DEMO_FILES, "--policy", "fgd").code == 0


def test_fgd_without_any_guest_says_what_is_missing(tmp_path):
    result = hostler("place", "-f", write(tmp_path / "f.yaml", "hosts: [{name: a}]\n"), "--policy", "fgd")
    assert result.code == 2
    assert "typical mix" in result.error


@pytest.mark.parametrize("policy", sorted(BUILT_IN))
def test_every_built_in_policy_decides_every_guest_of_the_demo(policy):
    result = hostler("place", *DEMO_FILES, "--policy", policy, "-o", "json")
    assert result.code in (0, 1)  # not each of them finds room for all
    assert len(result.json["decisions"]) == 34


def test_the_seed_decides_random_choices_and_nothing_else():
    def hosts(seed: int) -> list[str]:
        data = hostler("place", *DEMO_FILES, "--policy", "random", "--seed", str(seed), "-o", "json").json
        return [guest.get("host") for guest in data["guests"]]

    assert hosts(7) == hosts(7)
    assert hosts(7) != hosts(8)


def test_guests_that_need_preparing_count_as_placed(fleet):
    result = hostler("place", "-f", fleet("- {name: g, prepare: [disk]}\n"))
    assert result.code == 0
    assert result.row("g") == ["g", "a"]


@pytest.mark.parametrize(("ignorable", "code"), [("true", 0), ("false", 1)])
def test_nobody_answers_a_policy_that_asks(fleet, ignorable, code):
    policy = f"policies: [{{name: asks, ask: {{name: oracle, ignorable: {ignorable}}}}}]\npolicy: asks\n"
    result = hostler("place", "-f", fleet("- {name: g}\n- {name: h}\n", policy))
    assert result.code == code
    assert (NO_ANSWER in result.out) == bool(code)


def test_hosts_that_hold_more_than_they_may_give_are_noted(fleet):
    result = hostler("place", "-f", fleet("- {name: g, host: a, requests: {cpu: 9}}\n"))
    assert result.code == 0
    assert result.err == "note: host a holds more cpu than it may give: 9 of 4\n"


class TestPolicies:
    """A flag beats the environment, which beats the input, which beats the configuration."""

    @pytest.fixture
    def config(self, tmp_path, monkeypatch):
        path = tmp_path / "config.yaml"
        path.write_text("apiVersion: hostler/v1\nkind: Config\ndefault_policy: random\n")
        monkeypatch.setenv("HOSTLER_CONFIG", str(path))
        return path

    def _policy(self, *words) -> str:
        return hostler("place", *words).lines[-1].rsplit(" ", 1)[-1]

    def test_the_configuration_beats_the_default(self, config, fleet):
        assert self._policy("-f", fleet("- {name: g}\n")) == "random"

    def test_the_input_beats_the_configuration(self, config, fleet):
        assert self._policy("-f", fleet("- {name: g}\n", "policy: pack\n")) == "pack"

    def test_the_environment_beats_the_input(self, config, fleet, monkeypatch):
        monkeypatch.setenv("HOSTLER_POLICY", "best_fit")
        assert self._policy("-f", fleet("- {name: g}\n", "policy: pack\n")) == "best_fit"

    def test_a_flag_beats_them_all(self, config, fleet, monkeypatch):
        monkeypatch.setenv("HOSTLER_POLICY", "best_fit")
        assert self._policy("-f", fleet("- {name: g}\n", "policy: pack\n"), "--policy", "first_fit") == "first_fit"

    def test_a_flag_may_name_a_policy_of_the_input(self, fleet):
        file = fleet("- {name: g}\n", "policies: [{name: mine, extends: pack}]\n")
        assert self._policy("-f", file, "--policy", "mine") == "mine"

    def test_a_guest_may_name_another_policy_than_the_default(self, fleet):
        data = hostler("place", "-f", fleet("- {name: g, policy: pack}\n- {name: h}\n"), "-o", "json").json
        assert {one["guest"]: one["policy"] for one in data["decisions"]} == {"g": "pack", "h": "spread"}

    def test_output_carries_the_policies_it_was_made_with(self, tmp_path, fleet):
        own = "apiVersion: hostler/v1\nkind: Config\npolicies: [{name: mine, extends: pack, overcommit: {cpu: 2}}]\n"
        (tmp_path / "own.yaml").write_text(own + "default_policy: mine\n")
        first = hostler("place", "-f", fleet("- {name: g}\n"), "--config", tmp_path / "own.yaml", "-o", "json")
        assert [policy["name"] for policy in first.json["policies"]] == ["mine"]
        (tmp_path / "out.json").write_text(first.out)
        assert hostler("place", "-f", tmp_path / "out.json").code == 0
        assert hostler("place", "-f", tmp_path / "out.json", "--config", tmp_path / "own.yaml").code == 0
        changed = json.loads(first.out.replace('"cpu": 2', '"cpu": 3'))
        (tmp_path / "out.json").write_text(json.dumps(changed))
        clash = hostler("place", "-f", tmp_path / "out.json", "--config", tmp_path / "own.yaml")
        assert clash.code == 2
        assert "differs from the configuration's" in clash.error


NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }
    for name in ("n1", "n2")
]


def _pod(name: str, **spec: object) -> dict[str, object]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [container], **spec},
    }


class TestManifests:
    """Kubernetes objects, as files and as kubectl prints them."""

    def test_a_list_from_kubectl_is_read_from_standard_input(self):
        items = [*NODES, _pod("there", nodeName="n1"), _pod("new")]
        result = hostler("place", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        assert result.code == 0
        assert result.row("team/new") == ["team/new", "n2"]
        assert "1 placed, 1 already placed" in result.lines[-2]

    def test_several_documents_and_both_formats_may_be_mixed(self, tmp_path):
        (tmp_path / "nodes.yaml").write_text("---\n".join(map(write_yaml, NODES)))
        own = write(tmp_path / "own.yaml", "guests: [{name: vm, requests: {cpu: 2}, host_name: n2}]\n")
        result = hostler("place", "-f", tmp_path / "nodes.yaml", "-f", own)
        assert result.code == 0
        assert result.row("vm") == ["vm", "n2"]

    def test_what_is_not_evaluated_is_noted_once_for_all(self):
        claim = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]}
        items = [*NODES, *(_pod(f"p{i}", **claim) for i in range(3)), {"apiVersion": "v1", "kind": "Secret"}]
        result = hostler("place", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        assert result.err.splitlines() == [
            "note: pod team/p0 and 2 more of kind pod: spec.volumes[0].persistentVolumeClaim is not evaluated",
            "note: Secret: ignored",
        ]

    def test_an_error_in_a_manifest_names_the_file(self, tmp_path):
        node = {**NODES[0], "status": {"allocatable": {"cpu": "many"}}}
        (tmp_path / "n.json").write_text(json.dumps(node))
        result = hostler("place", "-f", tmp_path / "n.json")
        assert result.code == 2
        assert result.error.startswith(f"{tmp_path / 'n.json'}: node n1: ")

    def test_a_pod_on_a_node_that_nobody_declared_is_refused(self):
        result = hostler("place", "-f", "-", stdin=json.dumps(_pod("p", nodeName="zz")))
        assert result.code == 2
        assert "'zz'" in result.error


class TestJournal:
    """``--journal`` records the run, whole or not at all."""

    def test_a_run_is_recorded_and_replays(self, tmp_path):
        assert hostler("place", *DEMO_FILES, "--journal", tmp_path / "run.journal").code == 0
        assert hostler("journal", "replay", tmp_path / "run.journal").code == 0

    def test_a_failed_run_leaves_no_file(self, tmp_path):
        guests = "".join(f"- {{name: g{i}, host: a, requests: {{memory: 4Ei}}}}\n" for i in range(2))
        body = f"hosts: [{{name: a}}]\nguests:\n{guests}"
        result = hostler("place", "-f", write(tmp_path / "f.yaml", body), "--journal", tmp_path / "run.journal")
        assert result.code == 2
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["f.yaml"]

    @pytest.mark.parametrize("target", ["no/such/folder/x", "."])
    def test_a_place_that_cannot_be_written_is_named(self, tmp_path, target):
        result = hostler("place", *DEMO_FILES, "--journal", tmp_path / target)
        assert result.code == 2
        assert str(tmp_path) in result.error


def test_the_demo_guest_that_fits_nowhere_fits_nowhere_under_any_policy():
    for policy in ("spread", "pack", "fgd"):
        result = hostler("place", *DEMO_FILES, "-f", DEMO / "warehouse.yaml", "--policy", policy)
        assert result.code == 1
        assert result.row("warehouse")[:2] == ["warehouse", "-"]


def test_names_cannot_move_the_cursor(tmp_path):
    pod = _pod("evil\x1b[2Jname")
    result = hostler("place", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod]}))
    assert "\x1b" not in result.out + result.err
