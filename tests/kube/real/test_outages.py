"""API servers and etcd that die and come back, and a network that fails in all its ways, on a real API server."""

from __future__ import annotations

import signal
import time
import urllib.request

import pytest

from tests.kube.real.proxy import Fault, Proxy, binding, watching
from tests.wait import wait_until


@pytest.mark.parametrize("part", ["apiserver", "etcd"])
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
def test_a_control_plane_killed_in_the_middle_of_binds_comes_back_and_every_pod_is_placed_once(
    mortal_stage, part, count
):
    stage = mortal_stage
    stage.add_nodes(4)
    stage.add_pods(count)
    stage.add_gang("crew", 3, "100m")
    with Proxy(stage.cluster) as proxy:
        held = proxy.plan(Fault("hold", binding, skip=count // 3))
        stage.start(port=proxy.port)
        before = stage.wait_for(1)
        wait_until(lambda: held.done > held.skip)
        stage.cluster.kill(part)
        assert len(before) < count
        held.gate.set()
        stage.cluster.restart(part)
        stage.wait_for(count + 3)
        after = stage.settle(crew=3)
    assert before.items() <= after.items()


@pytest.mark.parametrize("seconds", [6, pytest.param(20, marks=pytest.mark.long)])
def test_after_an_outage_longer_than_its_lease_the_same_process_places_what_came_meanwhile(stage, proxy, seconds):
    stage.add_nodes(2)
    running = stage.start(port=proxy.port)
    stage.add_pods(5, "early")
    stage.wait_for(5)
    sent = dict(proxy.binds.targets)
    proxy.part()
    stage.add_pods(10, "meanwhile")
    running.until(f"lost the lease kube-system/{stage.name}; waiting for it again")
    time.sleep(seconds)
    assert running.process.poll() is None
    assert "connection refused" in running.said
    assert proxy.binds.targets == sent
    proxy.mend()
    stage.wait_for(15)
    stage.settle()
    assert running.said.count(" scheduling nodes=") == 2
    assert running.signal(signal.SIGTERM).ended() == 0


def test_an_api_server_that_is_stopped_for_longer_than_the_lease_is_waited_for_and_the_pages_go_on(mortal_stage):
    stage = mortal_stage
    stage.add_nodes(2)
    running = stage.start(listen="127.0.0.1:0")
    stage.add_pods(5, "early")
    stage.wait_for(5)
    address = running.said.partition("explanations at ")[2].split()[0]
    stage.cluster.kill("apiserver")
    running.until("; waiting for it again")
    assert _page(f"{address}/livez") == "ok"
    assert _page(f"{address}/readyz").startswith("ok, standby")
    stage.cluster.restart("apiserver")
    stage.add_pods(10, "after")
    stage.wait_for(15)
    stage.settle()
    assert _page(f"{address}/readyz") == "ok, leading"
    assert running.said.count(" scheduling nodes=") == 2


def _page(address: str) -> str:
    with urllib.request.urlopen(address) as answer:
        return answer.read().decode()


def test_an_outage_shorter_than_the_lease_is_survived(stage, proxy):
    stage.add_nodes(2)
    running = stage.start(port=proxy.port)
    proxy.part()
    stage.add_pods(10)
    proxy.mend()
    stage.wait_for(10)
    stage.settle()
    assert running.process.poll() is None


def test_binds_whose_answers_are_swallowed_are_found_out_and_sent_nowhere_else(stage, proxy):
    stage.add_nodes(6)
    swallowing = proxy.plan(Fault("swallow", binding, times=8))
    stage.start(port=proxy.port)
    stage.add_gang("crew", 4, "1500m")
    stage.add_pods(12, cpu="100m")
    stage.wait_for(16)
    stage.settle(crew=4)
    assert swallowing.done == 8
    assert [targets for targets in proxy.binds.targets.values() if len(set(targets)) > 1] == []
    assert wait_until(lambda: len(stage.events("Scheduled")) == 16)


def test_a_server_that_asks_for_time_gets_it_and_all_pods_are_placed(stage, proxy):
    stage.add_nodes(2)
    busy = proxy.plan(Fault("refuse", binding, times=5, status=429, retry_after=1))
    ill = proxy.plan(Fault("refuse", binding, times=5, status=503))
    stage.start(port=proxy.port)
    stage.add_pods(30)
    stage.wait_for(30)
    stage.settle()
    assert busy.done == ill.done == 5


def test_binds_that_are_never_answered_do_not_hold_up_the_others(stage, proxy):
    stage.add_nodes(2)
    stalled = proxy.plan(Fault("stall", binding, times=3))
    stage.start(port=proxy.port)
    stage.add_pods(20)
    stage.wait_for(20)
    stage.settle()
    assert stalled.done == 3


def test_watches_that_are_cut_in_the_middle_of_an_event_are_taken_up_where_they_were(stage, proxy):
    stage.add_nodes(2)
    cutting = proxy.plan(Fault("cut", watching("pods"), times=4, size=1500))
    running = stage.start(port=proxy.port)
    stage.add_pods(20)
    stage.wait_for(20)
    stage.settle()
    assert cutting.done >= 2
    assert running.process.poll() is None


@pytest.mark.long
def test_a_watch_that_says_nothing_is_opened_anew(stage, proxy):
    stage.add_nodes(2)
    proxy.plan(Fault("mute", watching("pods"), times=1))
    running = stage.start(port=proxy.port)
    stage.add_pods(3)
    wait_until(lambda: len(stage.bound()) == 3)
    stage.settle()
    assert running.process.poll() is None
