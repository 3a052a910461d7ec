"""What ``hostler kube schedule`` makes of its file and its flags before it reaches a cluster."""

from __future__ import annotations

from tests.cli.cli_in_process import hostler


def test_the_kubeconfig_that_the_file_names_is_used(tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"apiVersion: hostler/v1\nkind: Scheduler\nkubeconfig: {tmp_path / 'nowhere'}\n")
    result = hostler("kube", "schedule", "--config", str(file))
    assert result.code == 2
    assert str(tmp_path / "nowhere") in result.error


def test_a_flag_beats_the_kubeconfig_of_the_file(tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(f"apiVersion: hostler/v1\nkind: Scheduler\nkubeconfig: {tmp_path / 'nowhere'}\n")
    result = hostler("kube", "schedule", "--config", str(file), "--kubeconfig", str(tmp_path / "elsewhere"))
    assert result.code == 2
    assert str(tmp_path / "elsewhere") in result.error


def test_a_policy_and_a_file_contradict_each_other(tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text("apiVersion: hostler/v1\nkind: Scheduler\n")
    result = hostler("kube", "schedule", "--config", str(file), "--policy", "pack")
    assert result.code == 2
    assert "contradict" in result.error
