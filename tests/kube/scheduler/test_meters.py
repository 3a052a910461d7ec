"""What the metrics of a scheduler count: times from the watch, tries per pod, preemptions of gangs, use of nodes."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from hostler.kube.service.collector import metrics_text
from hostler.kube.service.numbers import count
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import refused
from tests.kube.faults.simulated_cluster import SimulatedCluster, play

SLI = "pod_scheduling_sli_duration_seconds"
ATTEMPT = "scheduling_attempt_duration_seconds"


def value(cluster, name, **labels):
    """Return a metric of the newest scheduler as it is served; 0 if it has no such series."""
    scheduler = cluster.actors[-1].scheduler
    text = metrics_text(scheduler, cluster.clock, count(scheduler.core.engine), None).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"hostler_{name}" and labels.items() <= sample.labels.items():
                return sample.value
    return 0.0


@run_with(play)
async def test_sli_counts_from_the_watch_not_from_whole_seconds(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    await cluster.lead()
    for number in range(10):
        await cluster.sleep(0.73)  # most pods are created long after their creationTimestamp, which has no fraction
        cluster.pod(f"p{number}")
    await cluster.until(lambda: value(cluster, f"{SLI}_count") == 10)
    assert value(cluster, f"{SLI}_bucket", le="0.08") == 10


@run_with(play)
async def test_sli_counts_all_tries_of_a_pod_that_waited(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=1)
    await cluster.lead()
    cluster.pod("big", cpu=4)
    await cluster.until(lambda: cluster.why("big"))
    await cluster.sleep(100)
    cluster.node("n2", cpu=4)
    await cluster.until(lambda: value(cluster, f"{SLI}_count", attempts="2") == 1)
    assert 100 <= value(cluster, f"{SLI}_sum", attempts="2") < 110
    assert value(cluster, f"{ATTEMPT}_count", result="scheduled") == 1
    assert value(cluster, f"{ATTEMPT}_sum", result="scheduled") < 1, "one attempt is not the whole wait"
    assert value(cluster, f"{ATTEMPT}_count", result="unschedulable") == 1


@run_with(play)
async def test_sli_starts_when_scheduling_gates_are_removed(cluster: SimulatedCluster, /):
    cluster.node("n1")
    await cluster.lead()
    cluster.pod("later", schedulingGates=[{"name": "quota"}])
    await cluster.sleep(100)
    cluster.server.change("pods", "later", lambda item: {**item, "spec": {**item["spec"], "schedulingGates": []}})
    await cluster.until(lambda: value(cluster, f"{SLI}_count") == 1)
    assert value(cluster, f"{SLI}_sum") < 1


@run_with(play)
async def test_tries_per_pod_include_binds_that_failed(cluster: SimulatedCluster, /):
    cluster.node("n1")
    leader = await cluster.lead()
    leader.script.next("binding", refused(403, "Forbidden", "a webhook says no"), about="web", times=2)
    cluster.pod("web")
    cluster.pod("calm")
    await cluster.until(lambda: cluster.where("web") and cluster.where("calm"))
    await cluster.until(lambda: value(cluster, "pod_scheduling_attempts_count") == 2)
    assert value(cluster, "pod_scheduling_attempts_sum") == 3 + 1
    assert value(cluster, "pod_scheduling_attempts_bucket", le="1.0") == 1


@run_with(play)
async def test_preemption_of_a_gang_is_one_attempt(cluster: SimulatedCluster, /):
    for number in range(3):
        cluster.node(f"n{number}", cpu=2)
        cluster.pod(f"low-{number}", cpu=2, on=f"n{number}")
    await cluster.lead()
    await cluster.until(lambda: all(cluster.runs(f"low-{number}") for number in range(3)))
    cluster.group("crew", least=3, priority=10)
    for number in range(3):
        cluster.pod(f"crew-{number}", cpu=2, priority=10, group="crew")
    await cluster.until(lambda: cluster.placed("crew-0", "crew-1", "crew-2") == 3)
    assert value(cluster, "evictions_total") == 3
    assert value(cluster, "preemption_attempts_total") == 1
    assert value(cluster, "preemption_victims_count") == 1
    assert value(cluster, "preemption_victims_sum") == 3


@run_with(play)
async def test_node_utilization_is_requests_over_allocatable(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=4)
    cluster.node("n2", cpu=12)
    cluster.node("gone", cpu=100)
    cluster.pod("theirs", cpu=3, on="n1", scheduler="default-scheduler")
    await cluster.lead()
    cluster.server.delete("nodes", "gone", "")
    cluster.pod("ours", cpu=5)
    await cluster.until(lambda: cluster.where("ours") == "n2")
    assert value(cluster, "node_utilization", resource="cpu") == 8 / 16
    assert value(cluster, "fullest_node_utilization", resource="cpu") == 3 / 4
    assert value(cluster, "node_utilization", resource="memory") == 0
    assert value(cluster, "node_utilization", resource="pods") == 2 / 220
