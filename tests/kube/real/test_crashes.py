"""Schedulers that are killed in the middle of something, and those that come after them, on a real API server."""

from __future__ import annotations

import signal

import pytest

from tests.kube.real.proxy import Fault, binding
from tests.wait import wait_until


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
def test_a_scheduler_killed_in_the_middle_of_many_binds_is_followed_by_one_that_does_the_rest(stage, proxy, count):
    stage.add_nodes(4)
    stage.add_pods(count)
    proxy.plan(Fault("stall", binding, skip=count // 3))
    first = stage.start(port=proxy.port)
    half = stage.wait_for(count // 3)
    first.kill()
    assert len(half) == count // 3
    stage.start()
    stage.wait_for(count)
    after = stage.settle()
    assert {name: after[name] for name in half} == half


def test_a_scheduler_killed_in_the_middle_of_a_gang_is_followed_by_one_that_completes_it(stage, proxy):
    stage.add_nodes(5)
    proxy.plan(Fault("stall", binding, skip=2))
    first = stage.start(port=proxy.port)
    stage.add_gang("crew", 5, "1500m")
    half = stage.wait_for(2)
    first.kill()
    assert len(half) == 2
    stage.add_pods(3, "rival", "1500m")  # who came later must not take the places of the rest
    stage.start()
    stage.wait_for(5, "crew-")
    after = stage.settle(crew=5)
    assert half.items() <= after.items()
    assert not any(name.startswith("rival") for name in after)


def test_a_scheduler_killed_between_deleting_victims_and_binding_the_preemptor_costs_no_further_victim(stage):
    stage.add_priority("real-urgent", 1000)
    stage.add_nodes(3)
    first = stage.start()
    stage.add_pods(3, "filler", "1500m", terminationGracePeriodSeconds=30)
    stage.wait_for(3)
    stage.create(stage.pod("urgent", "1500m", priorityClassName="real-urgent"))

    def leaving():
        return [name for name, pod in stage.pods().items() if "deletionTimestamp" in pod["metadata"]]

    (victim,) = wait_until(leaving)
    first.kill()
    stage.start()
    stage.remove(victim)
    stage.wait_for(1, "urgent")
    stage.settle()
    assert leaving() == []
    assert sum(name.startswith("filler") for name in stage.pods()) == 2


def test_a_leader_that_slept_through_its_lease_wakes_up_to_write_nothing(stage, proxy):
    stage.add_nodes(2)
    sleeper = stage.start(port=proxy.port)
    other = stage.start(awaited=False).until("waiting for the lease")
    sleeper.signal(signal.SIGSTOP)
    stage.add_pods(20)
    other.until(" scheduling nodes=")
    stage.wait_for(20)
    sent = dict(proxy.binds.targets)
    stage.add_pods(20, "later")
    sleeper.signal(signal.SIGCONT)
    sleeper.until("; waiting for it again")
    stage.wait_for(40)
    stage.settle()
    assert proxy.binds.targets == sent
    assert sleeper.said.count(" scheduling nodes=") == 1
    assert other.process.poll() is None


def test_a_scheduler_told_to_stop_while_it_binds_ends_well_and_gives_the_lease_back(stage, proxy):
    stage.add_nodes(4)
    held = proxy.plan(Fault("hold", binding, skip=12))
    stage.add_pods(60)
    first = stage.start(port=proxy.port)
    wait_until(lambda: held.done > held.skip)
    first.signal(signal.SIGTERM).until("finishing what was sent")
    held.gate.set()
    assert first.ended() == 0
    assert " stopped bound=" in first.said
    sent, bound = len(proxy.binds.targets), len(stage.bound())
    assert 10 < bound < 60
    assert bound == sent
    lease = stage.call("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{stage.name}")
    assert not lease["spec"].get("holderIdentity")
    stage.start()
    stage.wait_for(60)
    stage.settle()
