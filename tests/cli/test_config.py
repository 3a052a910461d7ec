"""``hostler config``: files checked, settings with their origins, the schema."""

from __future__ import annotations

import json

import pytest

from tests.cli.cli_in_process import DEMO, HEAD, hostler, write

CONFIG = "apiVersion: hostler/v1\nkind: Config\n"


def test_files_are_checked_each_and_together():
    result = hostler("config", "validate", DEMO / "fleet.yaml", DEMO / "guests.yaml")
    assert result.code == 0
    assert result.lines == [
        f"{DEMO / 'fleet.yaml'}: 12 hosts, 0 guests",
        f"{DEMO / 'guests.yaml'}: 0 hosts, 36 guests",
        "ok",
    ]


def test_a_guest_on_a_host_of_no_file_is_found():
    result = hostler("config", "validate", DEMO / "guests.yaml")
    assert result.code == 2
    assert "south-old" in result.err


def test_configurations_and_manifests_are_checked_too(tmp_path):
    config = write(tmp_path / "c.yaml", "policies: [{name: mine, extends: pack}]\n", head=CONFIG)
    fleet = write(tmp_path / "f.yaml", "policies: [{name: yours, extends: mine}]\npolicy: yours\n")
    pod, spec = tmp_path / "p.json", {"containers": [{"name": "c"}]}
    pod.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))
    result = hostler("config", "validate", fleet, pod, config)
    assert result.lines == [
        f"{config}: a configuration with 1 policy",
        f"{fleet}: 0 hosts, 0 guests, 1 own policy",
        f"{pod}: 0 hosts, 1 guest",
        "ok",
    ]


def test_pods_of_nodes_that_are_gone_are_noted_as_place_does(tmp_path):
    def item(kind, name, **more):
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}

    spec = {"containers": [{"name": "c"}], "nodeName": "gone"}
    items = [item("Node", "n", status={"allocatable": {"cpu": "4", "pods": "10"}}), item("Pod", "p", spec=spec)]
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    checked, placed = hostler("config", "validate", file), hostler("place", "-f", file)
    told = f"note: {file}: pod default/p does not count: its node gone is not there"
    assert (checked.code, placed.code) == (0, 0), checked.err
    assert checked.err.splitlines().count(told) == placed.err.splitlines().count(told) == 1
    assert checked.lines == [f"{file}: 1 host, 1 guest", "ok"]


def test_schedulers_in_both_formats_are_checked_with_their_gaps(tmp_path):
    own = write(tmp_path / "own.yaml", "profiles: [{policy: fgd}]\n", head="apiVersion: hostler/v1\nkind: Scheduler\n")
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    theirs = write(tmp_path / "theirs.yaml", "parallelism: 4\nprofiles: [{}, {schedulerName: b}]\n", head=head)
    result = hostler("config", "validate", own, theirs)
    assert result.lines == [f"{own}: a scheduler with 1 profile", f"{theirs}: a scheduler with 2 profiles", "ok"]
    assert f"note: {theirs}:3: parallelism is ignored" in result.err
    wrong = write(
        tmp_path / "wrong.yaml", "profiles: [{policy: fgdd}]\n", head="apiVersion: hostler/v1\nkind: Scheduler\n"
    )
    result = hostler("config", "validate", wrong)
    assert (result.code, result.hint) == (2, "did you mean 'fgd'?")


def test_plugins_and_their_arguments_are_checked(tmp_path):
    config = write(
        tmp_path / "c.yaml", "policies: [{name: mine, scorers: [{name: balanced, args: {x: 1}}]}]\n", head=CONFIG
    )
    result = hostler("config", "validate", config)
    assert result.code == 2
    assert "'x'" in result.error


@pytest.mark.parametrize("head", [CONFIG, HEAD], ids=["Config", "Fleet"])
@pytest.mark.parametrize(
    ("policy", "name", "hint"),
    [
        ("scorers: [balancd]", "balancd", "did you mean 'balanced'?"),
        ("scorers: [balanced, {name: least_alocated, weight: 2}]", "least_alocated", "did you mean 'least_allocated'?"),
        ("filters: [taint]", "taint", "did you mean 'taints'?"),
        ("extends: pack, filters: [{name: cordn}]", "cordn", "did you mean 'cordon'?"),
        ("extends: fgd, scorers: [fgdd]", "fgdd", "did you mean 'fgd'?"),
        ("scorers: [taint]", "taint", "known: balanced, "),
        ("filters: [fgdd]", "fgdd", "known: cordon, "),
    ],
)
def test_an_unknown_plugin_is_refused_with_the_nearest_of_its_kind(tmp_path, head, policy, name, hint):
    file = write(tmp_path / "c.yaml", f"policies: [{{name: fine}}, {{name: mine, {policy}}}]\n", head=head)
    result = hostler("config", "validate", file)
    assert result.code == 2
    assert result.error == f"policy 'mine' names plugin '{name}', which is neither built in nor installed"
    assert result.hint.startswith(hint)


def test_a_policy_that_measures_by_a_mix_needs_none_to_be_valid(tmp_path):
    config = write(tmp_path / "c.yaml", "policies: [{name: mine, extends: fgd}]\n", head=CONFIG)
    assert hostler("config", "validate", config).code == 0


def test_an_unknown_policy_is_found(tmp_path):
    fleet = write(tmp_path / "f.yaml", "policy: packk\n")
    assert hostler("config", "validate", fleet).hint == "did you mean 'pack'?"


def test_show_says_where_each_value_comes_from(tmp_path, monkeypatch):
    config = write(tmp_path / "c.yaml", "default_policy: pack\nqueue: {backoff_max: 30s}\n", head=CONFIG)
    result = hostler("config", "show", "--config", config)
    assert result.row("default_policy") == ["default_policy", "pack", f"{config}:3"]
    assert result.row("queue.backoff_max") == ["queue.backoff_max", "30s", f"{config}:4"]
    assert result.row("queue.flush_after")[-1] == "default"
    monkeypatch.setenv("HOSTLER_POLICY", "random")
    data = hostler("config", "show", "--config", config, "-o", "json").json
    assert data["default_policy"] == {"value": "random", "origin": "HOSTLER_POLICY"}


def test_the_schema_is_one_for_all_kinds():
    schema = hostler("config", "schema").json
    assert {option["$ref"] for option in schema["oneOf"]} == {
        f"#/$defs/{kind}File" for kind in ("Fleet", "Config", "Scenario", "Sweep", "Scheduler", "Load")
    }


def test_a_scenario_and_a_sweep_are_checked_too(tmp_path):
    scenario, sweep = tmp_path / "scenario.yaml", tmp_path / "sweep.yaml"
    head = "apiVersion: hostler/v1\nkind: {}\n"
    scenario.write_text(
        head.format("Scenario")
        + "hosts: [{name: h, count: 2, capacity: {cpu: 4}}]\narrivals: [{guest: {name: g}, count: 3}]\n"
    )
    sweep.write_text(head.format("Sweep") + "workloads: [default]\npolicies: [fgd, pack]\nruns: 2\n")
    result = hostler("config", "validate", str(scenario), str(sweep))
    assert result.code == 0
    assert "a scenario with 3 guests on 2 hosts" in result.out
    assert "a sweep of 2 policies with 2 seeds" in result.out
    sweep.write_text(sweep.read_text().replace("runs: 2", "seeds: 2"))
    result = hostler("config", "validate", str(sweep))
    assert (result.code, places(result)) == (2, [f"{sweep}:5: seeds: 2 may mean one seed or 2 of them"])


def places(result):
    """Return the place of each error, and what it is about."""
    return [line.removeprefix("error: ") for line in result.err.splitlines() if line.startswith("error: ")]


SCHEDULER = """
listn: 127.0.0.1:1
profiles:
- {scheduler_name: a, policy: fgdd}
- {scheduler_name: b, polcy: pack}
- {scheduler_name: b, policy: pack}
election: {lease: 12x}
limits: {max_in_flight: many}
"""


def test_all_problems_of_a_file_are_reported_in_line_order(tmp_path):
    path = write(tmp_path / "s.yaml", SCHEDULER, head="apiVersion: hostler/v1\nkind: Scheduler\n")
    result = hostler("config", "validate", path)
    assert result.code == 2
    assert places(result) == [
        f"{path}:4: unknown key 'listn' at the top level",
        f"{path}:6: policy 'fgdd' is not known",
        f"{path}:7: unknown key 'polcy' in profiles[1]",
        f"{path}:8: two profiles are for 'b'",
        f"{path}:9: election.lease: '12x' is not a duration",
        f"{path}:10: limits.max_in_flight must be an integer, not a string",
    ]


FLEET = """
hosts:
- {capacity: {cpu: 1}}
- {name: a, capacity: {cpu: 12x, memory: 3Gj}}
- {name: a, capacity: {cpu: 1}}
guests:
- {name: g, requests: {cpu: x}, host: nowhere}
- {name: h, policy: mine, host: a}
policies:
- {name: mine, extends: none}
- {name: other, scorers: [{name: balancd}]}
"""


def test_consequences_of_a_mistake_are_not_reported_separately(tmp_path):
    path = write(tmp_path / "f.yaml", FLEET)
    found = places(hostler("config", "validate", path))
    assert found == [
        f"{path}:5: hosts[0] has no 'name'",
        f"{path}:6: hosts[1].capacity.cpu: amount '12x' is not a quantity",
        f"{path}:6: hosts[1].capacity.memory: amount '3Gj' is not a quantity",
        f"{path}:7: host 'a' is declared twice, first at {path}:6",
        f"{path}:9: guests[0].requests.cpu: amount 'x' is not a quantity",
        f"{path}:9: guest 'g' runs on host 'nowhere', which is not declared",
        "policy 'other' names plugin 'balancd', which is neither built in nor installed",
        f"{path}:12: policy 'mine' extends 'none', which is not known",
    ]


def test_all_files_are_checked_though_one_cannot_be_read(tmp_path):
    torn, config = tmp_path / "torn.yaml", write(tmp_path / "c.yaml", "polices: []\nqueue: {x: 1}\n", head=CONFIG)
    torn.write_text("a: [1\n")
    pods = tmp_path / "pods.json"
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1x"}}}]}
    items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec} for name in "xy"]
    pods.write_text("\n---\n".join(map(json.dumps, items)))
    found = places(hostler("config", "validate", torn, config, pods, "missing.yaml"))
    assert [line.split(": ")[:2] for line in found] == [
        [f"{torn}:2", "this is not valid YAML"],
        ["missing.yaml", "cannot be read"],
        [f"{config}:3", "unknown key 'polices' at the top level"],
        [f"{config}:4", "unknown key 'x' in queue"],
        [str(pods), "pod default/x"],
        [str(pods), "pod default/y"],
    ]


def test_very_many_problems_are_cut(tmp_path):
    hosts = "".join(f"- {{name: h{number}, capacity: {{cpu: x}}}}\n" for number in range(60))
    result = hostler("config", "validate", write(tmp_path / "f.yaml", f"hosts:\n{hosts}"))
    assert (result.code, len(places(result))) == (2, 50)
    assert "note: there may be more: mend these first" in result.err
