"""The stored state of clusters: names that are safe as folders, ports, and files that only their owner reads."""

from __future__ import annotations

import stat

import pytest

from hostler.errors import InputError, UnknownNameError
from hostler.kube.local import LocalCluster
from hostler.kube.local.cluster import free_ports, is_free, scheduler_file
from hostler.kube.local.credentials import USERS, kubeconfig_path, make_credentials, token_of, write_kubeconfigs
from hostler.kube.local.state import (
    LocalClusterState,
    check_name,
    check_parts,
    cluster_folder,
    known_clusters,
    read_state,
    write_state,
)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/tmp", "-a", "a-", "A", "a b", "ä", "a\n", "x" * 41])
def test_a_name_that_could_leave_the_folder_is_refused(name):
    with pytest.raises(InputError) as caught:
        check_name(name)
    assert "lowercase letters" in caught.value.hint


@pytest.mark.parametrize("name", ["local", "a", "2", "a-b", "x" * 40])
def test_a_plain_name_is_a_folder(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert cluster_folder(name) == tmp_path / "hostler" / "kube" / name


def test_the_state_is_read_as_it_was_written(tmp_path):
    state = LocalClusterState(name="x", ports=free_ports(), parts=("kwok",), feature_gates={"A": False}, is_bare=True)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert stat.S_IMODE((tmp_path / "cluster.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("content", ["", "{", '{"name": "x"}', "[1]"])
def test_a_state_that_cannot_be_read_is_bad_input_and_not_a_crash(tmp_path, content):
    (tmp_path / "cluster.json").write_text(content)
    with pytest.raises(InputError, match=r"cluster\.json: cannot be read"):
        read_state(tmp_path)


def test_a_state_of_another_format_is_refused(tmp_path):
    write_state(tmp_path, LocalClusterState(name="x", ports=free_ports(), format=99))
    with pytest.raises(InputError, match="format 99"):
        read_state(tmp_path)


def test_clusters_are_those_that_have_a_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert known_clusters() == []
    for name in ("b", "a"):
        cluster_folder(name).mkdir(parents=True)
        write_state(cluster_folder(name), LocalClusterState(name=name, ports=free_ports()))
    (cluster_folder("c")).mkdir()
    assert known_clusters() == ["a", "b"]
    with pytest.raises(UnknownNameError) as caught:
        LocalCluster.open("c")
    assert caught.value.hint == "there are a, b"


def test_a_folder_with_other_things_in_it_is_not_taken(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(InputError, match="is not empty"):
        LocalCluster.start("x", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_ports_differ_and_stay_below_those_of_outgoing_connections():
    ports = free_ports()
    numbers = {getattr(ports, field) for field in ports.__struct_fields__}
    assert len(numbers) == len(ports.__struct_fields__)
    assert max(numbers) < 32768
    assert all(is_free(number) for number in numbers)


def test_secrets_are_for_their_owner_only_and_new_each_time(tmp_path):
    tokens = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        make_credentials(tmp_path / name)
        write_kubeconfigs(tmp_path / name, name, "https://127.0.0.1:1")
        tokens += [token_of(tmp_path / name, user) for user in USERS]
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / name).iterdir()}
        assert modes == {0o600}
    assert len(set(tokens)) == 2 * len(USERS)


def test_an_unknown_user_is_named(tmp_path):
    with pytest.raises(UnknownNameError, match="'root'"):
        kubeconfig_path(tmp_path, "root")


def test_parts_are_checked_and_put_in_order():
    assert check_parts(["kwok", "scheduler", "kwok", "etcd"]) == ("scheduler", "kwok")
    with pytest.raises(UnknownNameError) as caught:
        check_parts(["sheduler"])
    assert caught.value.hint == "did you mean 'scheduler'?"


def test_kube_scheduler_configuration_gets_our_kubeconfig_no_election(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        "kind: KubeSchedulerConfiguration\nclientConnection: {qps: 5000}\nleaderElection: {leaderElect: true}\n"
    )
    content = scheduler_file(file, tmp_path / "kubeconfig").decode()
    assert f"kubeconfig: {tmp_path / 'kubeconfig'}" in content
    assert "qps: 5000" in content
    assert "leaderElect: false" in content
    file.write_text("kind: Pod\n")
    with pytest.raises(InputError, match="is not a KubeSchedulerConfiguration"):
        scheduler_file(file, tmp_path / "kubeconfig")
