"""The lease in odd moments: given back during the hold, held for years by somebody, lost answers, tasks that die."""

import asyncio

import pytest

from hostler.errors import InternalError
from hostler.kube.api.reflector import Update
from hostler.kube.api.resources import PODS
from hostler.kube.api.transport import Request
from hostler.kube.settings import Election
from hostler.model import Bind
from tests.kube.faults.script import Fault, Script, unanswered
from tests.kube.faults.stage import SECOND, Stage, play

LEASE = Election().name
BIND_S = 4.0


def _lease(stage: Stage):
    return stage.server.get("leases", LEASE, "kube-system")


def _holder(stage: Stage) -> str:
    lease = _lease(stage)
    return lease["spec"]["holderIdentity"] if lease is not None else ""


def _hold(stage: Stage, seconds: int) -> None:
    """Let somebody hold the lease who never renews it."""
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": seconds, "leaseTransitions": 1}
    stage.server.put({"kind": "Lease", "metadata": {"name": LEASE, "namespace": "kube-system"}, "spec": spec})


def _unanswered_writes(times: int) -> Fault:
    """So many writes are carried out, and nobody says so."""
    left = iter(range(times))

    async def play_it(script: Script, request: Request):
        if request.method == "GET" or next(left, None) is None:
            return await script.deliver(request)
        return await unanswered()(script, request)

    return play_it


def test_a_request_to_stop_during_the_hold_gives_the_lease_back_once_nobody_can_write_any_more():
    async def story(stage: Stage) -> None:
        first = await stage.lead("first")
        await stage.crash(first)
        second = stage.start("second")
        await stage.until(lambda: _holder(stage).startswith("second"))
        taken_at = stage.now()
        assert not second.leads
        second.stop.set()
        assert await second.task == "stopped"
        assert _holder(stage) == ""
        third = await stage.lead("third")
        assert stage.now() >= taken_at + int(BIND_S * SECOND)
        assert third.leads

    play(story)


def test_a_lease_that_was_renewed_without_our_knowing_is_given_back_too():
    async def story(stage: Stage) -> None:
        first = await stage.lead("first")
        # As by a renewal that was cut short and written all the same.
        stage.server.change(
            "leases", LEASE, lambda item: {**item, "spec": {**item["spec"], "acquireTime": None}}, "kube-system"
        )
        first.stop.set()
        assert await first.task == "stopped"
        assert _holder(stage) == ""

    play(story)


def test_a_lease_whose_taking_had_no_answer_is_given_back_too():
    async def story(stage: Stage) -> None:
        _hold(stage, 15)
        actor = stage.start(script=lambda script: script.next("lease", _unanswered_writes(100), times=None))
        await stage.until(lambda: _holder(stage).startswith("one"))
        actor.script.lines.clear()
        actor.stop.set()
        assert await actor.task == "stopped"
        assert _holder(stage) == ""

    play(story)


def test_a_lease_whose_taking_had_no_answer_is_held_as_long_as_any_before_it_is_used():
    async def story(stage: Stage) -> None:
        _hold(stage, 15)
        actor = stage.start(script=lambda script: script.next("lease", _unanswered_writes(1), times=None))
        await stage.until(lambda: _holder(stage).startswith("one"))
        taken_at = stage.now()
        await stage.until(lambda: actor.leads)
        assert stage.now() >= taken_at + int(BIND_S * SECOND) - SECOND // 10

    play(story)


@pytest.mark.parametrize("seconds", [2**31 - 1, 10**6])
def test_a_lease_that_somebody_holds_for_years_is_taken_over_in_time_and_until_then_it_is_said(seconds):
    async def story(stage: Stage) -> None:
        _hold(stage, seconds)
        actor = stage.start()
        await stage.sleep(1800)
        assert _holder(stage) == "somebody"
        assert f"somebody holds it for {seconds} s" in actor.scheduler.mandate.last_error
        await stage.until(lambda: actor.leads, within_s=3600)
        assert actor.scheduler.mandate.last_error == ""

    play(story)


def test_a_lease_of_some_minutes_is_respected_although_ours_is_shorter():
    async def story(stage: Stage) -> None:
        _hold(stage, 300)
        actor = stage.start()
        await stage.sleep(290)
        assert _holder(stage) == "somebody"
        await stage.until(lambda: actor.leads)

    play(story)


def test_a_holder_that_renews_keeps_a_lease_of_any_length():
    async def story(stage: Stage) -> None:
        _hold(stage, 2**31 - 1)
        actor = stage.start()
        for number in range(5):
            await stage.sleep(1200)

            def renew(item, number=number):
                return {**item, "spec": {**item["spec"], "leaseTransitions": number + 2}}

            stage.server.change("leases", LEASE, renew, "kube-system")
        assert _holder(stage) == "somebody"
        assert not actor.leads
        actor.stop.set()
        await actor.task

    play(story)


# -- tasks that die ------------------------------------------------------------------------------------------------


async def _die(*args, **more):
    raise KeyError("no such thing")


def _break_reflector(scheduler):
    reflector = scheduler.reflectors["Pod"]
    reflector.run = _die
    scheduler._relist(reflector)


def _break_turns(scheduler):
    scheduler.core._driver = None
    scheduler.loop.nudge()


def _break_comparer(scheduler):
    scheduler.comparer.compare = _die
    scheduler.comparer.ask()


def _break_lease(scheduler):
    scheduler.mandate._renew = _die


def _break_binder(scheduler):
    scheduler.binder._on_bound = None


@pytest.mark.parametrize(
    ("wreck", "name"),
    [
        (_break_reflector, "following Pod"),
        (_break_turns, "deciding"),
        (_break_comparer, "comparing"),
        (_break_lease, "keeping the lease"),
        (_break_binder, "carrying out a decision"),
    ],
    ids=["a reflector", "the loop", "the comparer", "the lease", "a bind"],
)
def test_a_part_that_dies_ends_the_scheduler_with_an_error_and_gives_the_lease_back(wreck, name):
    async def story(stage: Stage) -> None:
        stage.node("n1")
        actor = await stage.lead("first")
        stage.pod("web")
        await stage.until(lambda: stage.where("web"))
        wreck(actor.scheduler)
        stage.pod("more")
        async with asyncio.timeout(60):
            with pytest.raises(InternalError, match=f"{name} ended: ") as caught:
                await actor.task
        assert caught.value.hint
        assert caught.value.__cause__ is not None
        assert _holder(stage) == ""
        stage.pod("late")
        await stage.lead("second")
        await stage.until(lambda: stage.where("late"))

    play(story)


def test_a_part_that_dies_before_everything_is_listed_ends_the_scheduler_too():
    async def story(stage: Stage) -> None:
        actor = stage.start()
        actor.scheduler.reflectors["Node"].run = _die  # type: ignore[method-assign]
        async with asyncio.timeout(60):
            with pytest.raises(InternalError, match="following Node ended: KeyError"):
                await actor.task
        assert _holder(stage) == ""

    play(story)


def test_a_pod_that_is_gone_before_its_bind_begins_leaves_nothing_behind():
    async def story(stage: Stage) -> None:
        stage.node("n1")
        actor = await stage.lead()
        scheduler = actor.scheduler
        stage.pod("web", cpu=100)  # too large, so that nobody else binds it
        uid = stage.uid("web")
        await stage.until(lambda: uid in scheduler.world.pods)
        scheduler.binder.submit(Bind(uid=uid, guest="web", seq=0, host="n1"))
        gone = scheduler.reflectors["Pod"].store["default", "web"]
        scheduler.loop.observe(PODS, [Update(("default", "web"), gone, None)])
        await stage.sleep(30)
        assert (scheduler.binder.backlog, scheduler.binder.in_flight) == (0, 0)
        assert not actor.task.done()

    play(story, is_clean=False)


def test_a_lease_that_changed_hands_as_often_as_can_be_counted_is_counted_from_the_beginning():
    async def story(stage: Stage) -> None:
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 2**31 - 1}
        stage.server.put({"kind": "Lease", "metadata": {"name": LEASE, "namespace": "kube-system"}, "spec": spec})
        first = await stage.lead("first")
        assert _lease(stage)["spec"]["leaseTransitions"] == 0
        await stage.crash(first)
        await stage.lead("second")
        assert _lease(stage)["spec"]["leaseTransitions"] == 1

    play(story)
