"""Fault 29 of the catalogue: a backlog that nothing can place, and a storm of events around it.

Nothing is timed: what is counted is the work, in decisions and in requests.
"""

from tests.kube.faults.stage import Stage, play

BACKLOG = 2_000
STORM = 600


def test_29_a_backlog_that_cannot_be_placed_is_not_looked_at_again_for_every_event():
    async def story(stage: Stage) -> None:
        for number in range(10):
            stage.node(f"n{number}", cpu=16)
        leader = await stage.lead()
        for number in range(BACKLOG):
            stage.pod(f"huge{number}", cpu=64)
        engine = leader.scheduler.core.engine
        await stage.until(lambda: all(stage.why(f"huge{number}") for number in range(0, BACKLOG, 97)), within_s=300)
        await stage.sleep(30)
        decided, begun = engine.view.decision_count, stage.now()
        for number in range(STORM):
            stage.pod(f"foreign{number}", cpu=1, on=f"n{number % 10}", scheduler="other")
            if number >= 50:
                stage.server.delete("pods", f"foreign{number - 50}", grace_s=0)
            if number % 100 == 0:
                stage.pod(f"small{number}", cpu=1)
            if number % 10 == 0:
                await stage.sleep(1 / 60)
        small = [f"small{number}" for number in range(0, STORM, 100)]
        await stage.until(lambda: stage.placed(*small) == len(small))

        assert engine.view.decision_count - decided < 100, "far fewer than pods times events"
        writes = [e for e in stage.requests(since=begun) if e.method != "GET" and "/leases" not in e.path]
        assert len(writes) <= 5 * len(small), "only what was placed costs writes"

    play(story, kubelet=False, steps=5_000_000)


def test_29_pods_that_fit_flow_past_a_backlog_of_higher_priority():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=64)
        leader = await stage.lead()
        for number in range(500):
            stage.pod(f"huge{number}", cpu=128, priority=1000)
        names = [f"small{number}" for number in range(50)]
        for name in names:
            stage.pod(name)
        await stage.until(lambda: stage.placed(*names) == 50)
        await stage.sleep(30)
        engine = leader.scheduler.core.engine
        decided = engine.view.decision_count
        await stage.sleep(240)
        assert engine.view.decision_count == decided, "who waits is not tried without a reason"

    play(story, kubelet=False)


def test_29_a_pod_that_is_refused_for_hours_costs_a_handful_of_writes():
    async def story(stage: Stage) -> None:
        stage.node("n1", cpu=1)
        await stage.lead()
        stage.pod("huge", cpu=64)
        await stage.until(lambda: stage.why("huge"))
        begun = stage.now()
        await stage.sleep(6000)
        writes = [e for e in stage.requests(since=begun) if e.method != "GET" and "/leases" not in e.path]
        assert len(writes) <= 10

    play(story)
