"""Programs of the user are used if they are new enough, and built otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.kube.local.binaries import ASSETS_VARIABLE, find_binaries, version_of
from hostler.kube.local.build import BINARIES, build_folder, modules_folder, modules_key, recipe_of


def program(folder: Path, name: str, says: str, code: int = 0) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\nexit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Give empty folders for the variable, PATH and the cache, the last one with stand-ins for what was built."""
    monkeypatch.setenv(ASSETS_VARIABLE, str(tmp_path / "assets"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/bin:/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    build_folder().mkdir(parents=True)
    for name in BINARIES:
        program(build_folder(), name, "never asked")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "says", "version"),
    [
        ("etcd", "etcd Version: 3.7.3\nGit SHA: abc\nGo Version: go1.26.8", (3, 7, 3)),
        ("kube-apiserver", "Kubernetes v1.37.1", (1, 37, 1)),
        ("kubectl", 'Client Version: version.Info{Major:"1", Minor:"20", GitVersion:"v1.20.2"}', (1, 20, 2)),
        ("kubectl", "Client Version: v1.37.1\nKustomize Version: v5.8.1", (1, 37, 1)),
        ("kwok", "kwok version v0.8.0 go1.26.8 (linux/amd64)", (0, 8, 0)),
        ("kube-apiserver", "Kubernetes v1.36.0-beta.0+abc", (1, 36, 0)),
        ("kube-apiserver", "no idea", None),
    ],
)
def test_a_program_is_asked_for_its_version(tmp_path, name, says, version):
    assert version_of(program(tmp_path, name, says)) == version


def test_a_program_that_fails_or_is_not_there_has_no_version(tmp_path):
    assert version_of(program(tmp_path, "etcd", "etcd Version: 3.7.3", code=1)) is None
    assert version_of(tmp_path / "nothing") is None


def test_variable_precedes_path_and_path_precedes_built_binaries(places):
    on_path = program(places / "path", "etcd", "etcd Version: 3.6.0")
    notes: list[str] = []
    assert find_binaries(["etcd"], notes.append)["etcd"].path == on_path
    from_variable = program(places / "assets", "etcd", "etcd Version: 3.5.1")
    found = find_binaries(["etcd"], notes.append)["etcd"]
    assert (found.path, found.version, found.origin) == (from_variable, (3, 5, 1), ASSETS_VARIABLE)
    assert notes == []


def test_one_that_is_too_old_is_left_aside_with_a_note(places):
    old = program(places / "path", "etcd", "etcd Version: 3.4.30")
    notes: list[str] = []
    found = find_binaries(["etcd"], notes.append)["etcd"]
    assert found.origin == "built"
    assert found.path == build_folder() / "etcd"
    assert notes == [f"{old} (PATH) is 3.4.30, older than 3.5: skipped"]


def test_servers_of_several_versions_are_not_mixed(places):
    program(places / "assets", "kube-apiserver", "Kubernetes v1.35.0")
    notes: list[str] = []
    alone = find_binaries(["kube-apiserver"], notes.append)
    assert alone["kube-apiserver"].version == (1, 35, 0)
    both = find_binaries(["kube-apiserver", "kube-scheduler"], notes.append)
    assert {binary.origin for binary in both.values()} == {"built"}
    assert "different versions" in notes[-1]


def test_another_pin_is_another_key(tmp_path):
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "go.mod").write_text("require x v1\n")
    before = modules_key(tmp_path)
    assert len(before) == 16
    assert modules_key(tmp_path) == before
    (tmp_path / "etcd" / "tools.go").write_text("package tools\n")
    assert modules_key(tmp_path) == before
    (tmp_path / "etcd" / "go.sum").write_text("")
    assert modules_key(tmp_path) != before


def test_every_binary_has_a_recipe_with_the_pinned_version():
    for name in BINARIES:
        recipe = recipe_of(name)
        pins = (modules_folder() / recipe.module / "go.mod").read_text()
        assert f" {recipe.version}\n" in pins
        assert (modules_folder() / recipe.module / "tools.go").exists()
    assert f"gitVersion={recipe_of('kubectl').version}" in recipe_of("kubectl").stamp
