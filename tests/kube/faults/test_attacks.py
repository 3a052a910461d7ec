"""What an attack found: each of these once stopped more than it should have."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from hostler.kube.api.failures import error_of
from hostler.kube.settings import ExtenderSettings, Profile
from tests.kube.faults.script import refused, unreachable
from tests.kube.faults.stage import Stage, play


def test_statuses_that_a_webhook_breaks_do_not_keep_pods_from_their_nodes():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=8)
        actor = await stage.lead()
        actor.script.next("status", refused(500, "InternalError", "failed calling webhook"), about="evil", times=None)
        stage.pod("evil", cpu=100)
        await stage.sleep(30)
        for number in range(4):
            stage.pod(f"ok-{number}")
        await stage.until(lambda: stage.placed(*(f"ok-{number}" for number in range(4))) == 4)
        stage.pod("big", cpu=100)
        await stage.until(lambda: stage.why("big"))
        assert stage.why("evil") == ""

    play(story)


def test_after_refused_connections_pods_are_bound_again_although_nothing_else_happens():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=64)
        actor = await stage.lead()
        line = actor.script.next("binding", unreachable(), times=None)
        for number in range(10):
            stage.pod(f"p{number}")
        await stage.sleep(60)
        assert actor.scheduler.breaker.is_open
        line.times = 0
        await stage.until(lambda: stage.placed(*(f"p{number}" for number in range(10))) == 10, within_s=300)

    play(story)


@pytest.mark.parametrize("wait", ["86400", "9" * 400, "999999999"])
def test_nobody_waits_for_days_because_a_server_says_so(wait):
    assert error_of(429, {"retry-after": wait}, b"{}").retry_after_s == 60.0


@pytest.mark.parametrize("wait", ["²", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", ""])
def test_a_wait_that_is_no_number_of_seconds_is_none(wait):
    assert error_of(429, {"retry-after": wait}, b"{}").retry_after_s is None


def test_a_reload_does_not_half_adopt_extenders():
    async def story(stage: Stage) -> None:
        stage.node("a")
        actor = await stage.lead()
        settings = actor.scheduler.settings
        extender = ExtenderSettings(url_prefix="http://127.0.0.1:1", filter_verb="filter")
        profiles = (*settings.profiles, Profile("second", settings.profiles[0].policy))
        wanted = msgspec.structs.replace(settings, profiles=profiles, extenders=(extender,))
        for _ in range(2):
            assert (await actor.scheduler.adopt(wanted)).later == ["extenders"]
        stage.pod("web", scheduler="second")
        await stage.until(lambda: stage.where("web"))

    play(story)


def test_nothing_is_kept_of_pods_that_could_not_even_be_read():
    async def story(stage: Stage) -> None:
        stage.node("a")
        actor = await stage.lead()
        for number in range(20):
            stage.pod(
                f"odd-{number}", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}
            )
        await stage.until(lambda: all(stage.why(f"odd-{number}") for number in range(20)))
        for number in range(20):
            stage.server.delete("pods", f"odd-{number}", grace_s=0)
        await stage.sleep(5)
        hands = actor.scheduler.hands
        assert not hands.statuses._said
        assert not hands.statuses._versions
        assert not hands.reports._series

    play(story)


def test_a_group_of_the_same_name_is_told_anew():
    async def story(stage: Stage) -> None:
        stage.node("a", cpu=8)
        await stage.lead()
        for life in range(2):
            stage.group("crew", 2)
            names = [f"crew-{life}-{number}" for number in range(2)]
            for name in names:
                stage.pod(name, group="crew")
            await stage.until(partial(_all_placed, stage, names))
            await stage.until(lambda: _condition(stage) == "True")
            for name in names:
                stage.server.delete("pods", name, grace_s=0)
            stage.server.delete("podgroups", "crew")
            await stage.sleep(3)

    play(story)


def _all_placed(stage: Stage, names: list[str]) -> bool:
    return stage.placed(*names) == len(names)


def _condition(stage: Stage) -> str:
    group = stage.server.get("podgroups", "crew") or {}
    known = group.get("status", {}).get("conditions", ())
    return next((one["status"] for one in known if one["type"] == "PodGroupInitiallyScheduled"), "")
