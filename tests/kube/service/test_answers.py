"""The content of the pages: explanations, candidates, the queue, plans, metrics, and work in progress."""

from __future__ import annotations

import asyncio
import json
import re

import msgspec

from hostler.cli.output.explanations import ShownExplanation, explanation_data
from hostler.kube.scheduler.meters import METRICS
from hostler.model import Explanation, Guest
from tests.kube.service.service_in_process import has_decided, node, pod, scheduling, server_with
from tests.wait import GIVE_UP_S, until


def ask(server, *paths, ready=lambda scheduler: True):
    """Return the responses of some pages, once the scheduler is ready."""

    async def main():
        async with scheduling(server) as pages:
            await until(lambda: ready(pages.scheduler))
            found = []
            for path in paths:
                status, body = await pages.get(path)
                assert status == 200, body
                found.append(body)
            return found

    return asyncio.run(main())


def uid_of(server, name):
    return server.get("pods", name)["metadata"]["uid"]


def test_a_pod_that_fits_nowhere_is_explained():
    server = server_with(node("small", "2"), node("large", "8"), pod("huge", "10"))
    (found,) = ask(server, "/v1/explain/default/huge", ready=has_decided)
    assert found["chosen"] is None
    assert found["message"] == "0/2 nodes are available: 2 Insufficient cpu."
    assert found["near_misses"][0] == "large"
    assert found["cure"]["host"] == "large"
    assert found["decision"]["namespace"] == "default"


def test_the_explanation_is_the_object_that_the_command_prints():
    server = server_with(node("n", "2"), pod("huge", "10"))
    (found,) = ask(server, "/v1/explain/default/huge", ready=has_decided)
    inner = found | {"decision": found["decision"] | {"host": ""}}
    explanation = msgspec.convert(inner, Explanation)
    printed = explanation_data(
        ShownExplanation(guest=Guest(name="huge"), explanation=explanation, message=found["message"])
    )
    printed = json.loads(msgspec.json.encode(printed))
    assert printed == {key: value for key, value in found.items() if key != "notes"}


def test_a_pod_of_another_scheduler_is_explained_as_if_it_were_ours():
    server = server_with(node("n", "2"), pod("theirs", "10", schedulerName="other"))
    path = "/v1/explain/default/theirs"
    found, again = ask(server, path, path)
    assert again == found
    assert found["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert found["notes"] == ["the pod names scheduler other; it is explained as if it named hostler-scheduler"]


def test_explaining_changes_no_decision():
    server = server_with(node("n", "2"), pod("theirs", "1", schedulerName="other"), pod("huge", "10"))

    async def main():
        async with scheduling(server) as pages:
            await until(lambda: has_decided(pages.scheduler))
            before = pages.scheduler.core.engine.checkpoint()
            for path in ("explain/default/theirs", "candidates/default/huge", "queue"):
                assert (await pages.get(f"/v1/{path}"))[0] == 200
            await pages.post("/v1/plan", json.dumps(pod("new")).encode())
            return before, pages.scheduler.core.engine.checkpoint()

    before, after = asyncio.run(main())
    assert before == after


def test_many_questions_at_once_are_all_answered():
    server = server_with(node("n", "2"), *(pod(f"huge-{number}", "10") for number in range(8)))

    async def main():
        async with scheduling(server) as pages:
            await until(lambda: has_decided(pages.scheduler))
            paths = [f"/v1/explain/default/huge-{number}" for number in range(8)] + ["/v1/explain/default/none"]
            return await asyncio.gather(*map(pages.get, paths))

    answers = asyncio.run(main())
    assert [status for status, _ in answers] == [200] * 8 + [404]
    assert [body["guest"] for _, body in answers[:8]] == [f"huge-{number}" for number in range(8)]


def test_candidates_are_the_nodes_that_fit_and_the_reasons_of_the_others():
    server = server_with(node("small", "1"), node("large", "8"), pod("web", "2"))
    (found,) = ask(server, "/v1/candidates/default/web", ready=has_decided)
    assert [one["host"] for one in found["feasible"]] == ["large"]
    assert found["feasible"][0]["total"] == sum(found["feasible"][0]["scores"].values())
    (refused,) = found["refused"]
    assert refused["host"] == "small"
    assert refused["failures"][0]["reason"]["code"] == "insufficient"


def test_the_queue_shows_states_reasons_and_next_tries():
    server = server_with(node("n", "2"), pod("fits"), pod("huge", "10"), pod("gated", schedulingGates=[{"name": "g"}]))
    (found,) = ask(server, "/v1/queue", ready=has_decided)
    rows = {row["name"]: row for row in found["pods"]}
    assert set(rows) == {"huge", "gated"}
    assert rows["huge"]["state"] == "unschedulable"
    assert rows["huge"]["reason"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert rows["huge"]["next_try"]
    assert (rows["gated"]["state"], rows["gated"]["next_try"]) == ("gated", None)


def crew(minimum, *members):
    """Return a gang and its members, which request these cpus."""
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    group = {"kind": "PodGroup", "metadata": {"name": "crew"}, "spec": policy}
    named = {"schedulingGroup": {"podGroupName": "crew"}}
    return group, *(pod(f"crew-{number}", cpu, **named) for number, cpu in enumerate(members))


def test_unplaceable_gang_is_described_in_the_same_words_everywhere():
    server = server_with(node("a", "8"), node("b", "8"), *crew(3, "7", "7", "7"))
    lacking = "gang default/crew needs 1 more of its members placed: 0/2 nodes are available: 2 Insufficient cpu."
    paths = [f"/v1/explain/default/crew-{number}" for number in range(3)]
    *explained, queue = ask(server, *paths, "/v1/queue", ready=has_decided)
    assert {found["message"] for found in explained} == {lacking}
    assert {row["reason"] for row in queue["pods"]} == {lacking}
    assert {row["state"] for row in queue["pods"]} == {"unschedulable"}

    async def main():
        items = [item | {"apiVersion": "v1"} for item in crew(3, "7", "7", "7")]
        items[0]["apiVersion"] = "scheduling.k8s.io/v1beta1"
        body = {"apiVersion": "v1", "kind": "List", "items": items}
        async with scheduling(server_with(node("a", "8"), node("b", "8"))) as pages:
            return await pages.post("/v1/plan", json.dumps(body).encode())

    planned = asyncio.run(main())[1]["pods"]
    assert {one["reason"] for one in planned} == {lacking}


def test_explanation_of_a_member_reports_its_gangs_decision():
    server = server_with(node("a", "8"), node("b", "8"), *crew(3, "7", "7", "7"))
    (found,) = ask(server, "/v1/explain/default/crew-2", ready=has_decided)
    assert set(found["feasible"]) == {"a", "b"}
    assert (found["decision"]["feasible"], found["decision"]["hosts"]) == (0, 2)


def test_a_pod_with_gates_is_explained_with_their_names():
    server = server_with(node("n"), pod("gated", schedulingGates=[{"name": "example.org/wait"}]))
    (found,) = ask(server, "/v1/explain/default/gated", ready=has_decided)
    (note,) = found["notes"]
    assert note.startswith("the pod has scheduling gates (example.org/wait)")


def test_what_no_node_offers_is_said():
    asks = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "example.org/quantum": "1"}}}]
    server = server_with(node("n"), pod("odd", containers=asks))
    (found,) = ask(server, "/v1/explain/default/odd", ready=has_decided)
    assert found["notes"] == ["no node offers example.org/quantum"]


def test_a_gang_that_is_not_complete_gathers_in_the_queue():
    group = {"kind": "PodGroup", "metadata": {"name": "crew"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    server = server_with(node("n"), group, pod("one", schedulingGroup={"podGroupName": "crew"}))
    queue, text = ask(server, "/v1/queue", "/metrics", ready=has_decided)
    (row,) = queue["pods"]
    assert (row["name"], row["state"]) == ("one", "gathering")
    assert row["reason"] == "1/2 members of gang default/crew are there, it waits for the rest"
    assert metrics_of(text)['hostler_pending_pods{queue="gated"}'] == 1


def test_the_queue_of_a_namespace_has_no_others():
    server = server_with(node("n", "2"), pod("a", "10"), pod("b", "10", namespace="kube-system"))
    (found,) = ask(server, "/v1/queue?namespace=kube-system", ready=has_decided)
    assert [row["name"] for row in found["pods"]] == ["b"]


def test_a_decision_is_found_by_uid():
    server = server_with(node("n", "2"), pod("a"))
    (found,) = ask(server, f"/v1/decisions/{uid_of(server, 'a')}", ready=has_decided)
    assert (found["guest"], found["host"], found["state"]) == ("a", "n", "bound")


def test_unknown_pods_are_not_found():
    async def main():
        async with scheduling(server_with()) as pages:
            return [(await pages.get(path))[0] for path in ("/v1/explain/default/x", "/v1/decisions/x")]

    assert asyncio.run(main()) == [404, 404]


def test_a_plan_says_where_pods_would_go_and_creates_none():
    server = server_with(node("n", "4"))
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "template": {"spec": pod("x", "2")["spec"]}},
    }

    async def main():
        async with scheduling(server) as pages:
            return await pages.post("/v1/plan", json.dumps(deployment).encode())

    status, found = asyncio.run(main())
    assert status == 200
    assert [(one["name"], one["node"]) for one in found["pods"]] == [("web-0", "n"), ("web-1", "n"), ("web-2", "")]
    assert found["pods"][2]["reason"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert not found["complete"]
    assert server.objects("pods") == []


def test_a_plan_of_nonsense_is_refused_with_a_reason():
    async def main():
        async with scheduling(server_with()) as pages:
            return [await pages.post("/v1/plan", body) for body in (b"[[[", b"{}", b'{"kind": "Pod", "spec": 3}')]

    for status, body in asyncio.run(main()):
        assert status == 400
        assert body["detail"]


def metrics_of(text):
    """Return the values of metrics by name with labels."""
    rows = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in rows}


async def metrics_with(pages, name):
    """Return the text of the metrics once one of them is there."""
    async with asyncio.timeout(GIVE_UP_S):
        while name not in (text := (await pages.get("/metrics"))[1]):
            await asyncio.sleep(0.1)
    return text


def test_metrics_have_the_stems_of_kube_scheduler():
    server = server_with(
        node("n", "2"), pod("fits"), pod("huge", "10"), pod("gated", schedulingGates=[{"name": "g"}]),
        pod("other", schedulerName="other"),
    )  # fmt: skip

    async def main():
        async with scheduling(server) as pages:
            await until(lambda: has_decided(pages.scheduler))
            return await metrics_with(pages, "hostler_missing_scheduled_events")  # counted a moment after the start

    text = asyncio.run(main())
    found = metrics_of(text)
    profile = 'profile="hostler-scheduler"'
    assert found[f'hostler_schedule_attempts_total{{{profile},result="scheduled"}}'] == 1
    assert found[f'hostler_schedule_attempts_total{{{profile},result="unschedulable"}}'] == 1
    queues = {
        queue: found[f'hostler_pending_pods{{queue="{queue}"}}'] for queue in ("active", "unschedulable", "gated")
    }
    assert queues == {"active": 0, "unschedulable": 1, "gated": 1}
    assert found['hostler_unschedulable_pods{plugin="resources"}'] == 1
    assert found['hostler_cache_size{type="pods"}'] == 4
    assert found['hostler_oldest_pending_pod_seconds{priority="0"}'] >= 0
    assert found["hostler_leader"] == 1
    assert found['hostler_relists_total{resource="pods"}'] == 0
    shown = set(re.findall(r"^# HELP (\S+)", text, re.MULTILINE))
    assert {METRICS.shown_name(spec) for spec in METRICS} <= shown, "every metric that is declared is shown"
    assert not [name for name in found if name.startswith("scheduler_")]


def test_metrics_use_kube_schedulers_prefix_too_if_requested():
    async def main():
        async with scheduling(server_with(node("n"), pod("a")), with_shared_metrics=True) as pages:
            await until(lambda: has_decided(pages.scheduler))
            return (await pages.get("/metrics"))[1]

    found = metrics_of(asyncio.run(main()))
    assert found['scheduler_pending_pods{queue="active"}'] == 0
    assert found['scheduler_pod_scheduling_sli_duration_seconds_bucket{attempts="1",le="+Inf"}'] == 1
    attempt = 'profile="hostler-scheduler",result="scheduled"'
    assert found[f"scheduler_scheduling_attempt_duration_seconds_count{{{attempt}}}"] == 1
    assert found["scheduler_pod_scheduling_attempts_sum"] == 1
    assert "scheduler_leader" not in found


def test_a_pod_that_was_bound_before_a_crash_and_has_no_event_is_counted():
    server = server_with(node("n"))

    async def main():
        server.put(pod("lost", nodeName="n"))
        async with scheduling(server) as pages:
            return metrics_of(await metrics_with(pages, "hostler_missing_scheduled_events"))

    assert asyncio.run(main())["hostler_missing_scheduled_events"] == 1


def test_the_state_names_what_is_under_way_and_nothing_disagrees():
    server = server_with(node("n", "2"), pod("a"), pod("huge", "10"))
    (found,) = ask(server, "/debug/state", ready=has_decided)
    assert found["role"] == "leading"
    assert found["queues"]["unschedulable"] == 1
    assert found["views"]["pods (v1)"]["objects"] == 2
    assert found["disagreements"] == []


def test_the_state_names_what_disagrees():
    server = server_with(node("n", "2"), pod("a"))

    async def main():
        async with scheduling(server) as pages:
            await until(lambda: has_decided(pages.scheduler))
            from hostler.model import GuestLeft

            pages.scheduler.core.engine.apply(GuestLeft(uid=uid_of(server, "a")))
            return (await pages.get("/debug/state"))[1]["disagreements"]

    assert asyncio.run(main()) == ["default/a is on n, unknown to the engine"]
