"""Schedulers that are killed in the middle of work, and their successors, on a real API server."""

from __future__ import annotations

import signal

import pytest

from tests.kube.real.proxy import Fault, binding
from tests.wait import wait_until

pytestmark = pytest.mark.early


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
def test_scheduler_killed_during_many_binds_is_continued_by_the_next(cluster, proxy, count):
    cluster.add_nodes(4)
    cluster.add_pods(count)
    proxy.plan(Fault("stall", binding, skip=count // 3))
    first = cluster.start(port=proxy.port)
    half = cluster.wait_for(count // 3)
    first.kill()
    assert len(half) == count // 3
    cluster.start()
    cluster.wait_for(count)
    after = cluster.settle()
    assert {name: after[name] for name in half} == half


def test_scheduler_killed_within_a_gang_is_continued_by_the_next(cluster, proxy):
    cluster.add_nodes(5)
    proxy.plan(Fault("stall", binding, skip=2))
    first = cluster.start(port=proxy.port)
    cluster.add_gang("crew", 5, "1500m")
    half = cluster.wait_for(2)
    first.kill()
    assert len(half) == 2
    cluster.add_pods(3, "rival", "1500m")  # who came later must not take the places of the rest
    cluster.start()
    cluster.wait_for(5, "crew-")
    after = cluster.settle(crew=5)
    assert half.items() <= after.items()
    assert not any(name.startswith("rival") for name in after)


def test_kill_between_eviction_and_bind_costs_no_further_victim(cluster):
    cluster.add_priority("real-urgent", 1000)
    cluster.add_nodes(3)
    first = cluster.start()
    cluster.add_pods(3, "filler", "1500m", terminationGracePeriodSeconds=30)
    cluster.wait_for(3)
    cluster.create(cluster.pod("urgent", "1500m", priorityClassName="real-urgent"))

    def leaving():
        return [name for name, pod in cluster.pods().items() if "deletionTimestamp" in pod["metadata"]]

    (victim,) = wait_until(leaving)
    first.kill()
    cluster.start()
    cluster.remove(victim)
    cluster.wait_for(1, "urgent")
    cluster.settle()
    assert leaving() == []
    assert sum(name.startswith("filler") for name in cluster.pods()) == 2


def test_a_leader_that_slept_through_its_lease_wakes_up_to_write_nothing(cluster, proxy):
    cluster.add_nodes(2)
    sleeper = cluster.start(port=proxy.port)
    other = cluster.start(awaited=False).until("waiting for the lease")
    sleeper.signal(signal.SIGSTOP)
    cluster.add_pods(20)
    other.until(" scheduling nodes=")
    cluster.wait_for(20)
    sent = dict(proxy.binds.targets)
    cluster.add_pods(20, "later")
    sleeper.signal(signal.SIGCONT)
    sleeper.until("; waiting for it again")
    cluster.wait_for(40)
    cluster.settle()
    assert proxy.binds.targets == sent
    assert sleeper.said.count(" scheduling nodes=") == 1
    assert other.process.poll() is None


def test_scheduler_stopped_while_binding_ends_well_and_releases_lease(cluster, proxy):
    cluster.add_nodes(4)
    held = proxy.plan(Fault("hold", binding, skip=12))
    cluster.add_pods(60)
    first = cluster.start(port=proxy.port)
    wait_until(lambda: held.done > held.skip)
    first.signal(signal.SIGTERM).until("waiting for open calls")
    held.gate.set()
    assert first.ended() == 0
    assert " stopped bound=" in first.said
    sent, bound = len(proxy.binds.targets), len(cluster.bound())
    assert 10 < bound < 60
    assert bound == sent
    lease = cluster.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{cluster.name}")
    assert not lease["spec"].get("holderIdentity")
    cluster.start()
    cluster.wait_for(60)
    cluster.settle()
