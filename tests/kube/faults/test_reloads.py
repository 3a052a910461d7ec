"""A configuration that is read again at run time, with plugins that fail on a cluster with nodes."""

import asyncio
from functools import partial
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hostler.kube.scheduler.notices import reload
from hostler.kube.settings import SchedulerSettings
from hostler.model import PluginUse
from hostler.model.reasons import ReasonKind
from hostler.telemetry.log import Log
from tests.async_tests import run_with
from tests.kube.faults.scripted_transport import lost
from tests.kube.faults.simulated_cluster import SimulatedCluster, play


class Fine:
    name = "third"
    reasons = (ReasonKind(code="is not liked", meaning="It says no.", is_resolvable=False, cures=frozenset()),)

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
    def reasons(self) -> Any:  # type: ignore[override]
        raise ZeroDivisionError("no reasons today")


class LeavesInsteadOfTelling(Fine):
    @property
    def reasons(self) -> Any:  # type: ignore[override]
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
def test_plugin_that_cannot_be_created_changes_nothing_and_is_reported(plugin):
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1", cpu=8)
        actor = await cluster.lead()
        said, old = Said(), actor.scheduler.settings
        await reload(actor.scheduler.adopt, lambda: _with_plugin(old), said.log)
        (line,) = said.about("SIGHUP")
        assert "WARN  SIGHUP: nothing changed: the file is invalid" in line
        assert actor.scheduler.settings == old
        cluster.pod("web")
        await cluster.until(lambda: cluster.where("web"))
        assert not any("the engine rejected a fact" in line for line in cluster.log_lines)
        await reload(actor.scheduler.adopt, lambda: old, said.log)
        assert said.about("nothing changed")

    play(story, plugins={"third": plugin})


@run_with(play, plugins={"third": Fine})
async def test_a_plugin_that_can_be_made_counts_as_soon_as_that_is_said(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    actor = await cluster.lead()
    said, old = Said(), actor.scheduler.settings
    await reload(actor.scheduler.adopt, lambda: _with_plugin(old), said.log)
    assert said.about("SIGHUP: policy kubernetes changed: filters")
    cluster.pod("web")
    await cluster.until(lambda: "is not liked" in cluster.why("web"))
    await reload(actor.scheduler.adopt, lambda: old, said.log)
    await cluster.until(lambda: cluster.where("web"))


class Moody(Fine):
    asked = 0

    @property
    def reasons(self) -> Any:  # type: ignore[override]
        Moody.asked += 1
        if Moody.asked > 2:
            raise SystemExit(1)
        return Fine.reasons


@run_with(play, plugins={"third": Moody})
async def test_plugin_failing_on_recreation_does_not_end_the_scheduler(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    actor = await cluster.lead()
    said, old = Said(), actor.scheduler.settings
    await reload(actor.scheduler.adopt, lambda: _with_plugin(old), said.log)
    await cluster.sleep(10)
    assert any("the engine rejected a fact fact=PolicyChanged" in line for line in cluster.log_lines)
    assert actor.leads


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


@run_with(play, plugins={"third": Fine}, executor=Slow())
async def test_files_read_while_one_is_still_tried_are_applied_in_order(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    actor = await cluster.lead()
    said, old = Said(), actor.scheduler.settings
    wanted = [_with_plugin(old), old, _with_plugin(old)]
    await asyncio.gather(*(reload(actor.scheduler.adopt, partial(_same, s), said.log) for s in wanted))
    assert len(said.about("SIGHUP: policy kubernetes changed: filters")) == 3
    assert actor.scheduler.settings == wanted[-1]
    cluster.pod("web")
    await cluster.until(lambda: "is not liked" in cluster.why("web"))


@run_with(play, plugins={"third": Fine}, executor=Slow())
async def test_reload_while_lease_is_lost_applies_to_the_next_term(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    actor = cluster.last()
    await cluster.until(lambda: actor.leads)
    first, said = actor.scheduler, Said()
    actor.script.next("lease", lost(), times=None)
    await cluster.until(lambda: actor.terms.lost == 1)
    assert actor.scheduler is first, "its last step is waited for"
    await reload(actor.terms.adopt, lambda: _with_plugin(first.settings), said.log)
    assert actor.scheduler is not first
    actor.script.lines.clear()
    cluster.pod("web")
    await cluster.until(lambda: "is not liked" in cluster.why("web"))
