"""The guide from an empty machine to a scheduled gang is correct: all of its commands run, in one shell, in order."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from hostler.config import parse_documents
from hostler.kube.configuration import read_document
from hostler.kube.local import LocalCluster
from tests.cli.cli_in_process import hostler
from tests.docs.page_commands import Shell, play
from tests.kube.deploy.clusters import HOSTLER, ROOT, Kubectl, pod
from tests.ports import free_port

pytestmark = pytest.mark.early

GUIDE = ROOT / "docs" / "guides" / "kubernetes.md"
TEXT = GUIDE.read_text()
ADDRESS = "127.0.0.1:10360"  # of the extender


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Yield a shell of a user without a cluster; what it starts ends with it."""
    for name in ("KUBECONFIG", "HOSTLER_CONFIG", "HOSTLER_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with Shell(tmp_path, Kubectl(tmp_path).program) as found:
        yield found
    hostler("kube", "down", "--all")


def test_every_command_can_be_typed_and_prints_what_is_shown(shell):
    # Other tests run schedulers too, and packages are installed already.
    text = TEXT.replace("hostler kube schedule >", "hostler kube schedule --listen 127.0.0.1:0 >")
    assert text != TEXT
    play(text.replace("$ pip install 'hostler[kube]'\n", ""), shell)


def file_with(word):
    """Return the only file of the guide that has a word in it."""
    (text,) = [text for text in re.findall(r"^```yaml\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE) if word in text]
    return text


def test_kube_scheduler_places_through_our_extender_by_its_file(tmp_path):
    address = f"127.0.0.1:{free_port()}"
    text = file_with("kind: KubeSchedulerConfiguration")
    (command,) = re.findall(r"^hostler (kube extender .*)$", TEXT, re.MULTILINE)
    assert ADDRESS in text
    assert ADDRESS in command
    (tmp_path / "config.yaml").write_text(text.replace(ADDRESS, address))
    with LocalCluster.start(
        "extended", tmp_path / "cluster", parts=("scheduler",), nodes=1, dies_with_us=True,
        scheduler_config=tmp_path / "config.yaml",
    ) as cluster:  # fmt: skip
        words = [*HOSTLER, *command.replace(ADDRESS, address).split(), "--kubeconfig", cluster.kubeconfig("hostler")]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as extender:
            try:
                kubectl = Kubectl(cluster.kubeconfig())
                kubectl.apply(pod("asked-about", scheduler="default-scheduler"))
                assert kubectl.wait_until_placed("asked-about") == ["node-0"]
            finally:
                extender.terminate()


def test_its_scheduler_file_is_read():
    (document,) = parse_documents(file_with("kind: Scheduler\n").encode(), "guide")
    assert [profile.policy for profile in read_document(document).profiles] == ["kubernetes", "pack"]


def test_its_overlay_renders_when_it_lies_in_the_root(tmp_path):
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "kustomization.yaml").write_text(file_with("images:"))
    objects = list(yaml.safe_load_all(Kubectl(tmp_path)("kustomize", str(tmp_path))))
    (deployment,) = [item for item in objects if item["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.your.org/hostler:0.1.0"


def test_guide_describes_every_deployment_part_and_links_resolve():
    parts = re.findall(r"^\| `(base|components/[a-z-]+)` \|", TEXT, re.MULTILINE)
    there = {f"components/{path.name}" for path in (ROOT / "deploy" / "kustomize" / "components").iterdir()}
    assert set(parts) == there | {"base"}
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (GUIDE.parent / target).exists(), target
