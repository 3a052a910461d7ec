"""Kubernetes' own tests are built on demand; Go is replaced by a fake."""

from hostler.kube.local.binaries import ASSETS_VARIABLE, find_binaries
from hostler.kube.local.build import TESTS, build_folder, recipe_of

WRITES_ITS_WORDS = """#!/bin/sh
echo "$*" >> "$CALLS"
while [ "$1" != -o ]; do shift; done
echo made > "$2"
"""


def test_spec_binary_is_built_from_its_package_at_the_server_version(tmp_path, monkeypatch):
    go = tmp_path / "go"
    go.write_text(WRITES_ITS_WORDS)
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = find_binaries([TESTS], lambda line: None)[TESTS]
    assert found.path == build_folder() / TESTS
    assert f"v{found.version_text}" == recipe_of("kube-apiserver").version
    assert found.path.read_text() == "made\n"
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("test -c -trimpath ")
    assert call.endswith(" k8s.io/kubernetes/test/e2e")


def test_tests_that_lie_about_elsewhere_are_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv(ASSETS_VARIABLE, str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / TESTS).write_text("#!/bin/sh\necho v1.99.0\n")
    (tmp_path / TESTS).chmod(0o755)
    build_folder().mkdir(parents=True)
    (build_folder() / TESTS).write_text("")
    assert find_binaries([TESTS], lambda line: None)[TESTS].origin == "built"
