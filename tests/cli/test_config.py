"""``hostler config``: files checked, settings with their origins, the schema."""

from __future__ import annotations

import json

import pytest

from tests.cli.running import DEMO, HEAD, hostler, write

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
    assert "south-old" in result.error


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


def test_schedulers_in_both_formats_are_checked_and_what_is_not_done_is_told(tmp_path):
    own = write(tmp_path / "own.yaml", "profiles: [{policy: fgd}]\n", head="apiVersion: hostler/v1\nkind: Scheduler\n")
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    theirs = write(tmp_path / "theirs.yaml", "parallelism: 4\nprofiles: [{}, {schedulerName: b}]\n", head=head)
    result = hostler("config", "validate", own, theirs)
    assert result.lines == [f"{own}: a scheduler with 1 profile", f"{theirs}: a scheduler with 2 profiles", "ok"]
    assert f"note: {theirs}:3: parallelism does not count" in result.err
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
    sweep.write_text(head.format("Sweep") + "workloads: [default]\npolicies: [fgd, pack]\nseeds: 2\n")
    result = hostler("config", "validate", str(scenario), str(sweep))
    assert result.code == 0
    assert "a scenario with 3 guests on 2 hosts" in result.out
    assert "a sweep of 2 policies with 2 seeds" in result.out
