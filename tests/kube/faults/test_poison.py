"""Faults 30 and 31 of the catalogue: pods that break their readers, and bugs of ours that must be found."""

import asyncio

import msgspec
import numpy as np
import pytest

from hostler.kube.settings import ExtenderSettings
from hostler.model.reasons import ReasonKind, Wake
from hostler.runtime.transport import TransportError
from tests.async_tests import run_with
from tests.kube.faults.simulated_cluster import SimulatedCluster, play

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERM = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}


def _container(**requests):
    return [{"name": "c", "image": "i", "resources": {"requests": requests}}]


POISON = {
    "malformed affinity": {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [_TERM]}}}},
    "empty affinity": {"affinity": {"nodeAffinity": {_REQUIRED: {}}}},
    "beyond 64 bits": {"containers": _container(cpu="99999999999999999999E")},
    "no quantity": {"containers": _container(memory="plenty")},
    "no containers": {"containers": []},
}


@pytest.mark.parametrize("spec", POISON.values(), ids=POISON)
@run_with(play)
async def test_30_a_poison_pod_is_set_aside_with_a_reason_and_the_others_go_on(cluster: SimulatedCluster, /, spec):
    cluster.node("n1", cpu=8)
    await cluster.lead()
    cluster.pod("before")
    cluster.pod("poison", **spec)
    cluster.pod("after")
    await cluster.until(lambda: cluster.placed("before", "after") == 2)
    await cluster.until(lambda: cluster.why("poison"))
    assert "FailedScheduling" in cluster.events("poison")
    await cluster.sleep(120)
    assert cluster.targets("poison") == []
    assert len([entry for entry in cluster.requests("status") if "/poison/" in entry.path]) <= 2
    cluster.server.delete("pods", "poison", grace_s=0)
    cluster.pod("poison")  # the same name, and sane
    await cluster.until(lambda: cluster.where("poison") == "n1")


@run_with(play)
async def test_30_poison_pod_present_at_start_does_not_block_the_scheduler(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    for number, spec in enumerate(POISON.values()):
        cluster.pod(f"poison{number}", **spec)
    cluster.pod("sane")
    await cluster.lead()
    await cluster.until(lambda: cluster.where("sane") == "n1")
    await cluster.until(lambda: all(cluster.why(f"poison{number}") for number in range(len(POISON))))


@run_with(play)
async def test_30_a_pod_that_cannot_even_be_read_is_listed_among_the_problems(cluster: SimulatedCluster, /):
    """A server that checks types never shows one; it does not say whose pod it is, so nothing is written to it."""

    cluster.node("n1", cpu=8)
    leader = await cluster.lead()
    cluster.pod("unreadable", affinity="none")
    cluster.pod("sane")
    await cluster.until(lambda: cluster.where("sane") == "n1")
    assert list(leader.scheduler.cluster.problems()) == ["pod default/unreadable"]


@run_with(play)
async def test_30_pod_with_huge_annotations_or_unknown_resource_is_ordinary(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    await cluster.lead()
    cluster.pod("fat")
    cluster.server.change(
        "pods",
        "fat",
        lambda item: {**item, "metadata": {**item["metadata"], "annotations": {"x": "y" * 1_000_000}}},
    )
    cluster.pod("odd", containers=_container(**{"example.com/unobtainium": "1"}))
    await cluster.until(lambda: cluster.where("fat") == "n1")
    await cluster.until(lambda: "Insufficient example.com/unobtainium" in cluster.why("odd"))


class Moody:
    """A third-party filter that fails on some pods."""

    name = "moody"
    reasons = (ReasonKind(code="is in a bad mood", meaning="It says no.", is_resolvable=False, cures=frozenset(Wake)),)
    fails_on = 7000

    def __init__(self, view, args):
        pass

    def evaluate(self, spec, rows):
        if dict(spec.requests).get("cpu") == Moody.fails_on:
            raise ZeroDivisionError("who divides by zero?")
        return np.zeros(len(rows), np.int64)


def test_30_plugin_failing_on_one_pod_delays_only_that_pod():
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1", cpu=64)
        leader = await cluster.lead()
        names = [f"p{number}" for number in range(6)]
        for name in names[:3]:
            cluster.pod(name)
        cluster.pod("cursed", cpu=7, priority=100)
        for name in names[3:]:
            cluster.pod(name)
        await cluster.until(lambda: cluster.placed(*names) == 6)
        await cluster.until(lambda: "who divides by zero?" in cluster.why("cursed"))
        await cluster.sleep(300)
        failed = leader.scheduler.meters.failed_decisions._value.get()
        assert 3 < failed < 60, "it is tried again, ever more rarely, and counted"
        Moody.fails_on = -1
        await cluster.until(lambda: cluster.where("cursed") == "n1")

    Moody.fails_on = 7000
    play(story, filters=("moody",), plugins={"moody": Moody})


def _extender(ignorable: bool) -> ExtenderSettings:
    return ExtenderSettings(
        url_prefix="http://extender", filter_verb="filter", is_node_cache_capable=True, is_ignorable=ignorable
    )


class Answers:
    """An extender that allows all nodes, unless it is set to fail."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.is_silent = False

    async def __call__(self, extender, verb, body):
        if self.is_silent:
            await asyncio.sleep(extender.timeout_s)
            raise TransportError("filter did not answer in time", may_have_acted=True)
        if self.failure is not None:
            raise self.failure
        return msgspec.json.encode({"NodeNames": msgspec.json.decode(body)["NodeNames"]})


@pytest.mark.parametrize(
    "failure", [ValueError("a bug"), OSError("no route"), None], ids=["a bug", "no route", "silence"]
)
def test_30_failing_extender_delays_only_its_own_pods(failure):
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1", cpu=8)
        await cluster.lead()
        calls.failure, calls.is_silent = failure, failure is None
        cluster.pod("a")
        cluster.pod("b")
        await cluster.sleep(60)
        assert cluster.placed("a", "b") == 0
        calls.failure, calls.is_silent = None, False
        await cluster.until(lambda: cluster.placed("a", "b") == 2)

    calls = Answers()
    play(story, extenders=(_extender(False),), calls=calls)


def test_30_an_extender_that_may_be_ignored_is():
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1", cpu=8)
        await cluster.lead()
        calls.is_silent = True
        cluster.pod("a")
        await cluster.until(lambda: cluster.where("a") == "n1")

    calls = Answers()
    play(story, extenders=(_extender(True),), calls=calls)
