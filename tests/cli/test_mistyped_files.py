"""Files that parse, or nearly do, with a slip in them: tiny memory, misspelled resources, tabs."""

from __future__ import annotations

import pytest

from tests.cli.cli_in_process import hostler, write


def _place(tmp_path, body):
    return hostler("place", "-f", write(tmp_path / "f.yaml", body))


def test_memory_below_one_mebibyte_is_warned_about(tmp_path):
    found = _place(
        tmp_path,
        "hosts:\n- {name: a, count: 3, capacity: {cpu: 4, memory: 64}}\n"
        "guests:\n- name: g\n  requests: {cpu: 1, memory: 2k}\n",
    )
    file = tmp_path / "f.yaml"
    assert found.err.splitlines() == [
        f"warning: {file}:4: hosts[0].capacity.memory is 64 bytes: did you mean 64Mi or 64Gi?",
        f"warning: {file}:7: guests[0].requests.memory is 2,000 bytes, which is less than 1Mi",
    ]


def test_memory_of_one_mebibyte_and_none_are_not_warned_about(tmp_path):
    found = _place(
        tmp_path,
        "hosts: [{name: a, capacity: {cpu: 4, memory: 1Mi}}, {name: b, capacity: {memory: 0}}]\n"
        "guests: [{name: g, requests: {cpu: 1, memory: 1Mi}}, {name: h}]\n",
    )
    assert found.err == ""


def test_tiny_memory_of_many_entries_is_warned_about_three_times(tmp_path):
    hosts = ", ".join(f"{{name: h{at}, capacity: {{memory: 64}}}}" for at in range(8))
    found = _place(tmp_path, f"hosts: [{hosts}]\n")
    assert len(found.err.splitlines()) == 4
    assert found.err.splitlines()[-1] == "warning: 5 more amounts of memory are less than 1Mi"


def test_tiny_memory_of_a_pod_is_warned_about(tmp_path):
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources: {requests: "
    pods = write(tmp_path / "pods.yaml", pod + "{memory: 64}}}]}}\n", head="")
    hosts = write(tmp_path / "hosts.yaml", "hosts: [{name: a, capacity: {memory: 1Gi}}]\n")
    found = hostler("place", "-f", hosts, "-f", pods)
    assert found.err == f"warning: {pods}: pod default/p asks for 64 bytes of memory: did you mean 64Mi or 64Gi?\n"


def test_config_validate_warns_about_tiny_memory(tmp_path):
    file = write(tmp_path / "f.yaml", "hosts: [{name: a, capacity: {memory: 64}}]\n")
    found = hostler("config", "validate", file)
    assert found.code == 0
    assert "hosts[0].capacity.memory is 64 bytes" in found.err


@pytest.mark.parametrize(
    ("capacity", "wrong", "right"),
    [
        ("{cpu: 4, memry: 64Gi}", "memry", "memory"),
        ("{CPU: 16, memory: 64Gi}", "CPU", "cpu"),
        ("{Memory: 64Gi, cpu: 4}", "Memory", "memory"),
    ],
)
def test_misspelled_capacity_names_the_right_resource_with_its_line(tmp_path, capacity, wrong, right):
    found = _place(
        tmp_path, f"hosts:\n- name: a\n  capacity: {capacity}\nguests: [{{name: g, requests: {{{right}: 4Mi}}}}]\n"
    )
    expected = f"warning: {tmp_path / 'f.yaml'}:5: unknown resource '{wrong}' in hosts[0].capacity: "
    assert found.err.splitlines() == [f"{expected}did you mean '{right}'?", f"note: no host has '{right}'"]


@pytest.mark.parametrize("capacity", ["{cpu: 4, gpu: 2}", "{cpu: 4, memory: 1Gi, cpus: 3, licenses: 2}"])
def test_resources_of_ones_own_are_not_taken_for_slips(tmp_path, capacity):
    assert _place(tmp_path, f"hosts: [{{name: a, capacity: {capacity}}}]\n").err == ""


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("hosts: [{name: a,\n memry: 64Gi}]\n", "did you mean capacity: {memory: …}?"),
        ("hosts: [{name: a,\n CPU: 16}]\n", "did you mean capacity: {cpu: …}?"),
        ("guests: [{name: a,\n memory: 64Gi}]\n", "did you mean requests: {memory: …}?"),
        ("hosts: [{name: a,\n Labels: {}}]\n", "did you mean 'labels'?"),
        ("hosts: [{name: a,\n capcity: {}}]\n", "did you mean 'capacity'?"),
    ],
)
def test_resource_beside_the_capacity_gets_a_hint_with_the_right_key(tmp_path, entry, hint):
    found = _place(tmp_path, entry)
    assert found.error.startswith(f"{tmp_path / 'f.yaml'}:4: unknown key ")
    assert found.hint == hint


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("hosts:\n\t- name: a\n", 4),
        ("hosts:\n  - name: a\n\tcapacity: {cpu: 1}\n", 5),
        ("hosts:\n  -\tname: a\n  \t  capacity: {cpu: 1}\n", 4),
    ],
)
def test_tab_in_the_indentation_is_named(tmp_path, body, line):
    found = _place(tmp_path, body)
    assert found.error == f"{tmp_path / 'f.yaml'}:{line}: this is not valid YAML: the line is indented with a tab"
    assert found.hint == "indent with spaces"
