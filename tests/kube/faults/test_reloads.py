"""A configuration that is read again while the scheduler runs, and plugins in it that fail on a cluster with nodes."""

import asyncio
from functools import partial
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hostler.kube.scheduler.telling import reload
from hostler.kube.settings import SchedulerSettings
from hostler.model import PluginUse
from hostler.telemetry.log import Log
from tests.kube.faults.script import lost
from tests.kube.faults.stage import Stage, play


class Fine:
    name = "third"
    reasons = ("is not liked",)
    cures: frozenset[Any] = frozenset()

    def __init__(self, view: Any, args: Any) -> None:
        self._view = view

    def evaluate(self, spec: Any, rows: Any) -> Any:
        return np.ones(len(rows), np.int64)


class Fails(Fine):
    def __init__(self, view: Any, args: Any) -> None:
        raise ZeroDivisionError("no nodes, please \udc80")


class Leaves(Fine):
    def __init__(self, view: Any, args: Any) -> None:
        raise SystemExit(1)


def _same(settings: Any) -> Any:
    return settings


class FailsToTell(Fine):
    @property
    def cures(self) -> Any:  # type: ignore[override]
        raise ZeroDivisionError("no cures today")


class LeavesInsteadOfTelling(Fine):
    @property
    def cures(self) -> Any:  # type: ignore[override]
        raise SystemExit(1)


class Said:
    """A log into a list."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.log = Log(self.lines.append)

    def about(self, word: str) -> list[str]:
        return [line for line in self.lines if word in line]


def _with_plugin(settings: SchedulerSettings) -> SchedulerSettings:
    (policy,) = settings.policies
    return replace(settings, policies=(replace(policy, filters=(*policy.filters, PluginUse("third"))),))


@pytest.mark.parametrize("plugin", [Fails, Leaves, FailsToTell, LeavesInsteadOfTelling])
def test_a_plugin_that_cannot_be_made_on_this_cluster_changes_nothing_and_is_told(plugin):
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        actor = await stage.lead()
        said, old = Said(), actor.scheduler.settings
        actor.scheduler.loop.log = said.log
        await reload(actor.scheduler.adopt, lambda: _with_plugin(old), said.log)
        (line,) = said.about("SIGHUP")
        assert "WARN  SIGHUP: nothing was changed: the file is refused" in line
        assert actor.scheduler.settings == old
        stage.pod("web")
        await stage.until(lambda: stage.where("web"))
        assert not said.about("a fact was not taken")
        await reload(actor.scheduler.adopt, lambda: old, said.log)
        assert said.about("nothing changed")

    play(story, plugins={"third": plugin})


def test_a_plugin_that_can_be_made_counts_as_soon_as_that_is_said():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        actor = await stage.lead()
        said, old = Said(), actor.scheduler.settings
        await reload(actor.scheduler.adopt, lambda: _with_plugin(old), said.log)
        assert said.about("SIGHUP: policy kubernetes changed: filters")
        stage.pod("web")
        await stage.until(lambda: "is not liked" in stage.why("web"))
        await reload(actor.scheduler.adopt, lambda: old, said.log)
        await stage.until(lambda: stage.where("web"))

    play(story, plugins={"third": Fine})


def test_a_plugin_that_fails_when_it_is_made_once_more_does_not_end_the_scheduler():
    class Moody(Fine):
        asked = 0

        @property
        def cures(self) -> Any:  # type: ignore[override]
            Moody.asked += 1
            if Moody.asked > 2:
                raise SystemExit(1)
            return frozenset()

    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        actor = await stage.lead()
        said, old = Said(), actor.scheduler.settings
        actor.scheduler.loop.log = said.log
        await reload(actor.scheduler.adopt, lambda: _with_plugin(old), said.log)
        await stage.sleep(10)
        assert said.about("a fact was not taken fact=PolicyChanged")
        assert actor.leads

    play(story, plugins={"third": Moody})


class Slow:
    """An executor whose work takes a while."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()

    async def run(self, work):
        async with self._one_at_a_time:
            await asyncio.sleep(1)
            return work()

    def close(self) -> None:
        """There is nothing to end."""


def test_files_that_are_read_while_the_one_before_is_still_tried_are_taken_in_order():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        actor = await stage.lead()
        said, old = Said(), actor.scheduler.settings
        wanted = [_with_plugin(old), old, _with_plugin(old)]
        await asyncio.gather(*(reload(actor.scheduler.adopt, partial(_same, s), said.log) for s in wanted))
        assert len(said.about("SIGHUP: policy kubernetes changed: filters")) == 3
        assert actor.scheduler.settings == wanted[-1]
        stage.pod("web")
        await stage.until(lambda: "is not liked" in stage.why("web"))

    play(story, plugins={"third": Fine}, executor=Slow())


def test_what_is_read_again_while_the_lease_is_lost_counts_in_the_next_term():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=8)
        actor = stage.last()
        await stage.until(lambda: actor.leads)
        first, said = actor.scheduler, Said()
        actor.script.next("lease", lost(), times=None)
        await stage.until(lambda: actor.terms.lost == 1)
        assert actor.scheduler is first, "its last step is waited for"
        await reload(actor.terms.adopt, lambda: _with_plugin(first.settings), said.log)
        assert actor.scheduler is not first
        actor.script.lines.clear()
        stage.pod("web")
        await stage.until(lambda: "is not liked" in stage.why("web"))

    play(story, plugins={"third": Fine}, executor=Slow())
