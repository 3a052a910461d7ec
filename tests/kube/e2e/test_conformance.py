"""Kubernetes' own scheduling tests, with Hostler in place of kube-scheduler.

``docs/kubernetes-e2e.md`` lists the result of each spec with both schedulers, and why some cannot pass without
kubelets; ``python -m tests.kube.e2e --scheduler kube-scheduler`` runs the real one.
"""

import pytest

from hostler.kube.local.binaries import find_binaries
from hostler.kube.local.build import TESTS, build_folder
from tests.kube.e2e.spec_runs import e2e_cluster, run_specs


def differences(outcomes):
    """Return the specs with an unexpected result, and their messages."""
    return {
        name: f"{outcome.state}: {outcome.message}" for name, outcome in outcomes.items() if outcome.state != "passed"
    }


def test_a_node_selector_is_respected_as_kubernetes_itself_tests_it(tmp_path):
    binary = build_folder() / TESTS
    if not binary.exists():
        pytest.skip("Kubernetes' own tests are not built; the long tests build them")
    with e2e_cluster("ours", tmp_path) as cluster:
        outcomes = run_specs(binary, cluster, "NodeSelector is respected if matching", tmp_path / "specs", limit_s=300)
    assert [outcome.state for outcome in outcomes.values()] == ["passed"], outcomes


@pytest.mark.long
@pytest.mark.parametrize(
    ("focus", "skip", "count"),
    [
        (r"sig-scheduling.*\[Conformance\]", "", 11),
        ("sig-scheduling.*(SchedulerPredicates|SchedulerPriorities|Multi-AZ)", r"\[Conformance\]", 15),
        ("sig-scheduling.*(SchedulerPreemption|GenericWorkload)", r"\[Conformance\]", 9),
    ],
    ids=["conformance", "filters and scores", "preemption and gangs"],
)
def test_kubernetes_own_scheduling_tests_pass(focus, skip, count, tmp_path):
    binary = find_binaries([TESTS], print)[TESTS].path
    with e2e_cluster("ours", tmp_path) as cluster:
        outcomes = run_specs(binary, cluster, focus, tmp_path / "specs", skip=skip, limit_s=2400)
    assert differences(outcomes) == {}
    assert len(outcomes) == count
