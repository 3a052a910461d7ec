"""Fault 29 of the catalogue: a backlog that cannot be placed, and a storm of events around it.

No time is measured: the tests count the work, in decisions and in requests.
"""

from tests.async_tests import run_with
from tests.kube.faults.simulated_cluster import SimulatedCluster, play

BACKLOG = 2_000
STORM = 600


@run_with(play, kubelet=False, steps=5000000)
async def test_29_unplaceable_backlog_is_not_retried_at_every_event(cluster: SimulatedCluster, /):
    for number in range(10):
        cluster.node(f"n{number}", cpu=16)
    leader = await cluster.lead()
    for number in range(BACKLOG):
        cluster.pod(f"huge{number}", cpu=64)
    engine = leader.scheduler.core.engine
    await cluster.until(lambda: all(cluster.why(f"huge{number}") for number in range(0, BACKLOG, 97)), within_s=300)
    await cluster.sleep(30)
    decided, begun = engine.view.decision_count, cluster.now()
    for number in range(STORM):
        cluster.pod(f"foreign{number}", cpu=1, on=f"n{number % 10}", scheduler="other")
        if number >= 50:
            cluster.server.delete("pods", f"foreign{number - 50}", grace_s=0)
        if number % 100 == 0:
            cluster.pod(f"small{number}", cpu=1)
        if number % 10 == 0:
            await cluster.sleep(1 / 60)
    small = [f"small{number}" for number in range(0, STORM, 100)]
    await cluster.until(lambda: cluster.placed(*small) == len(small))

    assert engine.view.decision_count - decided < 100, "far fewer than pods times events"
    writes = [e for e in cluster.requests(since=begun) if e.method != "GET" and "/leases" not in e.path]
    assert len(writes) <= 5 * len(small), "only what was placed costs writes"


@run_with(play, kubelet=False)
async def test_29_pods_that_fit_flow_past_a_backlog_of_higher_priority(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    leader = await cluster.lead()
    for number in range(500):
        cluster.pod(f"huge{number}", cpu=128, priority=1000)
    names = [f"small{number}" for number in range(50)]
    for name in names:
        cluster.pod(name)
    await cluster.until(lambda: cluster.placed(*names) == 50)
    await cluster.sleep(30)
    engine = leader.scheduler.core.engine
    decided = engine.view.decision_count
    await cluster.sleep(240)
    assert engine.view.decision_count == decided, "who waits is not tried without a reason"


@run_with(play)
async def test_29_a_pod_that_is_refused_for_hours_costs_a_handful_of_writes(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=1)
    await cluster.lead()
    cluster.pod("huge", cpu=64)
    await cluster.until(lambda: cluster.why("huge"))
    begun = cluster.now()
    await cluster.sleep(6000)
    writes = [e for e in cluster.requests(since=begun) if e.method != "GET" and "/leases" not in e.path]
    assert len(writes) <= 10
