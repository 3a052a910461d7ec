"""Findings of an attack: each of these once blocked more than it should have."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from hostler.kube.api.failures import error_of
from hostler.kube.settings import ExtenderSettings, SchedulerProfile
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import refused, unreachable
from tests.kube.faults.simulated_cluster import SimulatedCluster, play


@run_with(play)
async def test_statuses_that_a_webhook_breaks_do_not_keep_pods_from_their_nodes(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=8)
    actor = await cluster.lead()
    actor.script.next("status", refused(500, "InternalError", "failed calling webhook"), about="evil", times=None)
    cluster.pod("evil", cpu=100)
    await cluster.sleep(30)
    for number in range(4):
        cluster.pod(f"ok-{number}")
    await cluster.until(lambda: cluster.placed(*(f"ok-{number}" for number in range(4))) == 4)
    cluster.pod("big", cpu=100)
    await cluster.until(lambda: cluster.why("big"))
    assert cluster.why("evil") == ""


@run_with(play)
async def test_binds_resume_after_refused_connections_without_other_events(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=64)
    actor = await cluster.lead()
    line = actor.script.next("binding", unreachable(), times=None)
    for number in range(10):
        cluster.pod(f"p{number}")
    await cluster.sleep(60)
    assert actor.scheduler.breaker.is_open
    line.times = 0
    await cluster.until(lambda: cluster.placed(*(f"p{number}" for number in range(10))) == 10, within_s=300)


@pytest.mark.parametrize("wait", ["86400", "9" * 400, "999999999"])
def test_nobody_waits_for_days_because_a_server_says_so(wait):
    assert error_of(429, {"retry-after": wait}, b"{}").retry_after_s == 60.0


@pytest.mark.parametrize("wait", ["²", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", ""])
def test_a_wait_that_is_no_number_of_seconds_is_none(wait):
    assert error_of(429, {"retry-after": wait}, b"{}").retry_after_s is None


@run_with(play)
async def test_a_reload_does_not_half_adopt_extenders(cluster: SimulatedCluster, /):
    cluster.node("a")
    actor = await cluster.lead()
    settings = actor.scheduler.settings
    extender = ExtenderSettings(url_prefix="http://127.0.0.1:1", filter_verb="filter")
    profiles = (*settings.profiles, SchedulerProfile("second", settings.profiles[0].policy))
    wanted = msgspec.structs.replace(settings, profiles=profiles, extenders=(extender,))
    for _ in range(2):
        assert (await actor.scheduler.adopt(wanted)).later == ["extenders"]
    cluster.pod("web", scheduler="second")
    await cluster.until(lambda: cluster.where("web"))


@run_with(play)
async def test_nothing_is_kept_of_pods_that_could_not_even_be_read(cluster: SimulatedCluster, /):
    cluster.node("a")
    actor = await cluster.lead()
    for number in range(20):
        cluster.pod(f"odd-{number}", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}})
    await cluster.until(lambda: all(cluster.why(f"odd-{number}") for number in range(20)))
    for number in range(20):
        cluster.server.delete("pods", f"odd-{number}", grace_s=0)
    await cluster.sleep(5)
    executors = actor.scheduler.executors
    assert not executors.statuses._said
    assert not executors.statuses._versions
    assert not executors.reports._series


@run_with(play)
async def test_a_group_of_the_same_name_is_reported_again(cluster: SimulatedCluster, /):
    cluster.node("a", cpu=8)
    await cluster.lead()
    for life in range(2):
        cluster.group("crew", 2)
        names = [f"crew-{life}-{number}" for number in range(2)]
        for name in names:
            cluster.pod(name, group="crew")
        await cluster.until(partial(_all_placed, cluster, names))
        await cluster.until(lambda: _condition(cluster) == "True")
        for name in names:
            cluster.server.delete("pods", name, grace_s=0)
        cluster.server.delete("podgroups", "crew")
        await cluster.sleep(3)


def _all_placed(cluster: SimulatedCluster, names: list[str]) -> bool:
    return cluster.placed(*names) == len(names)


def _condition(cluster: SimulatedCluster) -> str:
    group = cluster.server.get("podgroups", "crew") or {}
    known = group.get("status", {}).get("conditions", ())
    return next((one["status"] for one in known if one["type"] == "PodGroupInitiallyScheduled"), "")
