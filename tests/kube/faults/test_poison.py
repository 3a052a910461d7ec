"""Faults 30 and 31 of the catalogue: pods that break what looks at them, and mistakes of our own that must be found."""

import asyncio

import msgspec
import numpy as np
import pytest

from hostler.engine.framework import Wake
from hostler.kube.api.transport import TransportError
from hostler.kube.settings import ExtenderSettings
from tests.kube.faults.stage import Stage, play

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
def test_30_a_poison_pod_is_set_aside_with_a_reason_and_the_others_go_on(spec):
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        await stage.lead()
        stage.pod("before")
        stage.pod("poison", **spec)
        stage.pod("after")
        await stage.until(lambda: stage.placed("before", "after") == 2)
        await stage.until(lambda: stage.why("poison"))
        assert "FailedScheduling" in stage.events("poison")
        await stage.sleep(120)
        assert stage.targets("poison") == []
        assert len([entry for entry in stage.requests("status") if "/poison/" in entry.path]) <= 2
        stage.server.delete("pods", "poison", grace_s=0)
        stage.pod("poison")  # the same name, and sane
        await stage.until(lambda: stage.where("poison") == "n1")

    play(story)


def test_30_a_poison_pod_that_is_there_at_the_start_does_not_keep_the_scheduler_from_starting():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        for number, spec in enumerate(POISON.values()):
            stage.pod(f"poison{number}", **spec)
        stage.pod("sane")
        await stage.lead()
        await stage.until(lambda: stage.where("sane") == "n1")
        await stage.until(lambda: all(stage.why(f"poison{number}") for number in range(len(POISON))))

    play(story)


def test_30_a_pod_that_cannot_even_be_read_is_listed_among_the_problems():
    """A server that checks types never shows one; it does not say whose pod it is, so nothing is written to it."""

    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        leader = await stage.lead()
        stage.pod("unreadable", affinity="none")
        stage.pod("sane")
        await stage.until(lambda: stage.where("sane") == "n1")
        assert list(leader.scheduler.world.problems()) == ["pod default/unreadable"]

    play(story)


def test_30_a_pod_with_a_megabyte_of_annotations_or_an_unknown_resource_is_an_ordinary_pod():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        await stage.lead()
        stage.pod("fat")
        stage.server.change(
            "pods",
            "fat",
            lambda item: {**item, "metadata": {**item["metadata"], "annotations": {"x": "y" * 1_000_000}}},
        )
        stage.pod("odd", containers=_container(**{"example.com/unobtainium": "1"}))
        await stage.until(lambda: stage.where("fat") == "n1")
        await stage.until(lambda: "Insufficient example.com/unobtainium" in stage.why("odd"))

    play(story)


class Moody:
    """A filter of somebody else that fails on some pods."""

    name = "moody"
    reasons = ("is in a bad mood",)
    cures = frozenset(Wake)
    fails_on = 7000

    def __init__(self, view, args):
        pass

    def evaluate(self, spec, rows):
        if dict(spec.requests).get("cpu") == Moody.fails_on:
            raise ZeroDivisionError("who divides by zero?")
        return np.zeros(len(rows), np.int64)


def test_30_a_plugin_that_fails_on_one_pod_stops_only_that_pod_which_is_tried_again_later():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        leader = await stage.lead()
        names = [f"p{number}" for number in range(6)]
        for name in names[:3]:
            stage.pod(name)
        stage.pod("cursed", cpu=7, priority=100)
        for name in names[3:]:
            stage.pod(name)
        await stage.until(lambda: stage.placed(*names) == 6)
        await stage.until(lambda: "who divides by zero?" in stage.why("cursed"))
        await stage.sleep(300)
        failed = leader.scheduler.meters.failed_decisions._value.get()
        assert 3 < failed < 60, "it is tried again, ever more rarely, and counted"
        Moody.fails_on = -1
        await stage.until(lambda: stage.where("cursed") == "n1")

    Moody.fails_on = 7000
    play(story, filters=("moody",), plugins={"moody": Moody})


def _extender(ignorable: bool) -> ExtenderSettings:
    return ExtenderSettings(
        url_prefix="http://extender", filter_verb="filter", is_node_cache_capable=True, is_ignorable=ignorable
    )


class Answers:
    """An extender that allows all nodes, unless it is told to fail."""

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
def test_30_an_extender_that_fails_delays_only_its_pods_and_they_are_placed_when_it_answers(failure):
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        await stage.lead()
        calls.failure, calls.is_silent = failure, failure is None
        stage.pod("a")
        stage.pod("b")
        await stage.sleep(60)
        assert stage.placed("a", "b") == 0
        calls.failure, calls.is_silent = None, False
        await stage.until(lambda: stage.placed("a", "b") == 2)

    calls = Answers()
    play(story, extenders=(_extender(False),), calls=calls)


def test_30_an_extender_that_may_be_ignored_is():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        await stage.lead()
        calls.is_silent = True
        stage.pod("a")
        await stage.until(lambda: stage.where("a") == "n1")

    calls = Answers()
    play(story, extenders=(_extender(True),), calls=calls)
