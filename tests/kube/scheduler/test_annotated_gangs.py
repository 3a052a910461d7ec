"""Gangs that only annotations name: their owners read what is true of them, and nothing about PodGroups."""

from tests.async_tests import run_with
from tests.kube.faults.simulated_cluster import SimulatedCluster, play

TEAM = {"pod-group": "team", "priority": "50"}


def notes(cluster):
    return [event["note"] for event in cluster.server.objects("events") if event["reason"] == "FailedScheduling"]


@run_with(play, seed_annotations=True)
async def test_annotated_gang_that_gathers_gets_no_failed_event(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    await cluster.lead()
    for number in range(4):
        cluster.pod(f"team-{number}", annotations=TEAM)
        assert cluster.placed("team-0") == 0
        await cluster.sleep(0.7)
    await cluster.until(lambda: cluster.placed(*[f"team-{number}" for number in range(4)]) == 4)
    assert notes(cluster) == []


@run_with(play, seed_annotations=True)
async def test_annotated_gang_that_keeps_growing_says_why_it_waits(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=64)
    await cluster.lead()
    for number in range(12):
        cluster.pod(f"team-{number}", annotations=TEAM)
        await cluster.sleep(0.7)
    why = cluster.why("team-0")
    assert why.startswith("gang default/team is not complete yet: its annotations give no minimum")
    assert "pod-group-min" in why
    await cluster.until(lambda: cluster.placed(*[f"team-{number}" for number in range(12)]) == 12)
    assert {note for note in notes(cluster) if "PodGroup" in note} == set()


@run_with(play, seed_annotations=True)
async def test_annotated_gang_with_a_minimum_names_what_is_there(cluster: SimulatedCluster, /):
    cluster.node("n1", cpu=8)
    await cluster.lead()
    cluster.pod("team-0", annotations={**TEAM, "pod-group-min": "2"})
    await cluster.until(lambda: "1/2 members of gang default/team are there" in cluster.why("team-0"))
    cluster.pod("team-1", annotations={**TEAM, "pod-group-min": "2"})
    await cluster.until(lambda: cluster.placed("team-0", "team-1") == 2)
