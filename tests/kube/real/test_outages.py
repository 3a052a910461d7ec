"""API servers and etcd that die and return, and a network with all kinds of faults, on a real API server."""

from __future__ import annotations

import signal
import time
import urllib.request

import pytest

from tests.kube.real.proxy import Fault, Proxy, binding, watching
from tests.wait import wait_until

pytestmark = pytest.mark.early


@pytest.mark.parametrize("part", ["apiserver", "etcd"])
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
def test_control_plane_killed_during_binds_returns_and_places_pods_once(mortal_cluster, part, count):
    cluster = mortal_cluster
    cluster.add_nodes(4)
    cluster.add_pods(count)
    cluster.add_gang("crew", 3, "100m")
    with Proxy(cluster.control_plane) as proxy:
        held = proxy.plan(Fault("hold", binding, skip=count // 3))
        cluster.start(port=proxy.port)
        before = cluster.wait_for(1)
        wait_until(lambda: held.done > held.skip)
        cluster.control_plane.kill(part)
        assert len(before) < count
        held.gate.set()
        cluster.control_plane.restart(part)
        cluster.wait_for(count + 3)
        after = cluster.settle(crew=3)
    assert before.items() <= after.items()


@pytest.mark.parametrize("seconds", [6, pytest.param(20, marks=pytest.mark.long)])
def test_same_process_continues_after_an_outage_longer_than_its_lease(cluster, proxy, seconds):
    cluster.add_nodes(2)
    running = cluster.start(port=proxy.port)
    cluster.add_pods(5, "early")
    cluster.wait_for(5)
    sent = dict(proxy.binds.targets)
    proxy.part()
    cluster.add_pods(10, "meanwhile")
    running.until(f"lost the lease kube-system/{cluster.name}; waiting for it again")
    time.sleep(seconds)
    assert running.process.poll() is None
    assert "connection refused" in running.said
    assert proxy.binds.targets == sent
    proxy.mend()
    cluster.wait_for(15)
    cluster.settle()
    assert running.said.count(" scheduling nodes=") == 2
    assert running.signal(signal.SIGTERM).ended() == 0


def test_pages_stay_up_while_the_api_server_is_away_longer_than_lease(mortal_cluster):
    cluster = mortal_cluster
    cluster.add_nodes(2)
    running = cluster.start(listen="127.0.0.1:0")
    cluster.add_pods(5, "early")
    cluster.wait_for(5)
    address = running.said.partition("explanations at ")[2].split()[0]
    cluster.control_plane.kill("apiserver")
    running.until("; waiting for it again")
    assert _page(f"{address}/livez") == "ok"
    assert _page(f"{address}/readyz").startswith("ok, standby")
    cluster.control_plane.restart("apiserver")
    cluster.add_pods(10, "after")
    cluster.wait_for(15)
    cluster.settle()
    assert _page(f"{address}/readyz") == "ok, leading"
    assert running.said.count(" scheduling nodes=") == 2


def _page(address: str) -> str:
    with urllib.request.urlopen(address) as answer:
        return answer.read().decode()


def test_an_outage_shorter_than_the_lease_is_survived(cluster, proxy):
    cluster.add_nodes(2)
    running = cluster.start(port=proxy.port)
    proxy.part()
    cluster.add_pods(10)
    proxy.mend()
    cluster.wait_for(10)
    cluster.settle()
    assert running.process.poll() is None


def test_binds_with_swallowed_answers_are_verified_not_sent_elsewhere(cluster, proxy):
    cluster.add_nodes(6)
    swallowing = proxy.plan(Fault("swallow", binding, times=8))
    cluster.start(port=proxy.port)
    cluster.add_gang("crew", 4, "1500m")
    cluster.add_pods(12, cpu="100m")
    cluster.wait_for(16)
    cluster.settle(crew=4)
    assert swallowing.done == 8
    assert [targets for targets in proxy.binds.targets.values() if len(set(targets)) > 1] == []
    assert wait_until(lambda: len(cluster.events("Scheduled")) == 16)


def test_a_server_that_asks_for_time_gets_it_and_all_pods_are_placed(cluster, proxy):
    cluster.add_nodes(2)
    busy = proxy.plan(Fault("refuse", binding, times=5, status=429, retry_after=1))
    ill = proxy.plan(Fault("refuse", binding, times=5, status=503))
    cluster.start(port=proxy.port)
    cluster.add_pods(30)
    cluster.wait_for(30)
    cluster.settle()
    assert busy.done == ill.done == 5


def test_binds_that_are_never_answered_do_not_hold_up_the_others(cluster, proxy):
    cluster.add_nodes(2)
    stalled = proxy.plan(Fault("stall", binding, times=3))
    cluster.start(port=proxy.port)
    cluster.add_pods(20)
    cluster.wait_for(20)
    cluster.settle()
    assert stalled.done == 3


def test_watches_cut_within_an_event_resume_where_they_were(cluster, proxy):
    cluster.add_nodes(2)
    cutting = proxy.plan(Fault("cut", watching("pods"), times=4, size=1500))
    running = cluster.start(port=proxy.port)
    cluster.add_pods(20)
    cluster.wait_for(20)
    cluster.settle()
    assert cutting.done >= 2
    assert running.process.poll() is None


@pytest.mark.long
def test_a_watch_that_says_nothing_is_opened_again(cluster, proxy):
    cluster.add_nodes(2)
    proxy.plan(Fault("mute", watching("pods"), times=1))
    running = cluster.start(port=proxy.port)
    cluster.add_pods(3)
    wait_until(lambda: len(cluster.bound()) == 3)
    cluster.settle()
    assert running.process.poll() is None
