"""Every example works as its README says: each command runs on a real cluster with our scheduler."""

from __future__ import annotations

import re

import pytest

from tests.docs.page_commands import Shell, play
from tests.kube.deploy.clusters import ROOT, Kubectl, scheduling, whole_cluster

pytestmark = pytest.mark.early

EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/README.md"))


@pytest.fixture(scope="module", params=[5, pytest.param(3, marks=pytest.mark.long)])
def cluster(request, tmp_path_factory):
    """Give a cluster of as many nodes as the guide starts, and of the fewest that the examples are made for."""
    with whole_cluster(tmp_path_factory.mktemp("examples") / "cluster", "examples", nodes=request.param) as found:
        yield found


@pytest.fixture
def run(cluster, tmp_path):
    """Return a function that types the commands of an example while a scheduler runs as the example says."""

    def type_all(name):
        folder = ROOT / "examples" / name
        text = (folder / "README.md").read_text()
        file = re.search(r"^hostler kube schedule --config (\S+)$", text, re.MULTILINE)
        words = ["--listen", "127.0.0.1:0", *(["--config", str(folder / file[1])] if file else [])]
        kubectl = Kubectl(cluster.kubeconfig())
        with (
            scheduling(cluster.kubeconfig("hostler"), tmp_path, words),
            Shell(folder, kubectl.program, KUBECONFIG=str(cluster.kubeconfig())) as shell,
        ):
            printed = play(text, shell)
            kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=true")
        return printed

    return type_all


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "gpu-sharing"])
def test_an_example_can_be_typed_as_it_stands(run, name):
    run(name)


def test_halves_share_a_gpu_and_a_whole_one_is_left(run):
    (table,) = [lines for lines in run("gpu-sharing") if lines[:1] and lines[0].split() == ["NAME", "GPU"]]
    gpus = dict(line.split() for line in table[1:])
    assert gpus["half-a"] == gpus["half-b"] != gpus["whole"]


def test_the_overview_names_every_example():
    text = (ROOT / "examples" / "README.md").read_text()
    assert re.findall(r"^\| \[(.*?)\]\(\1/README\.md\)", text, re.MULTILINE)
    assert set(re.findall(r"\]\((.*?)/README\.md\)", text)) == set(EXAMPLES)
