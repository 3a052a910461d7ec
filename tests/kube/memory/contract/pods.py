"""The contract of pods: binding, graceful deletion, eviction."""

from __future__ import annotations

import asyncio

from tests.kube.memory.contract.session import MERGE, STRATEGIC, ApiSession, Json, pod

__all__ = ["PODS"]


def _refused(name: str, why: str) -> tuple[int, str, str]:
    return 409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": {why}'


def _told(answer: tuple[int, Json]) -> tuple[int, str, str]:
    return answer[0], answer[1].get("reason", ""), answer[1].get("message", "")


async def a_binding_sets_the_node_once(talk: ApiSession) -> None:
    """The node, the condition, the annotations; the nomination goes. A second binding is refused, even to the same."""
    uid = (await talk.make(pod("a")))["metadata"]["uid"]
    patch = {"status": {"nominatedNodeName": "n9", "conditions": [{"type": "PodScheduled", "status": "False"}]}}
    await talk.call("PATCH", f"{talk.pods}/a/status", patch, STRATEGIC)
    status, answer = await talk.bind("a", "n1", uid, device="gpu-0")
    assert (status, answer["kind"], answer["status"]) == (201, "Status", "Success")
    bound = await talk.get("a")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"own": "1", "device": "gpu-0"}
    assert bound["metadata"]["generation"] == 1
    assert "nominatedNodeName" not in bound["status"]
    conditions = [(known["type"], known["status"]) for known in bound["status"]["conditions"]]
    assert conditions == [("PodScheduled", "True")]
    for node in ("n1", "n2"):
        assert _told(await talk.bind("a", node, uid)) == _refused("a", 'pod a is already assigned to node "n1"')
    assert await talk.get("a") == bound


async def a_binding_of_another_uid_is_refused(talk: ApiSession) -> None:
    """The pod that was decided about is gone; its successor stays unbound."""
    uid = (await talk.make(pod("a")))["metadata"]["uid"]
    await talk.call("DELETE", f"{talk.pods}/a")
    successor = await talk.make(pod("a"))
    status, refused = await talk.bind("a", "n1", uid)
    assert (status, refused["reason"]) == (409, "Conflict")
    assert refused["message"] == (
        f'Operation cannot be fulfilled on pods "a": StorageError: invalid object, Code: 4, Key: '
        f"/registry/pods/{talk.namespace}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
        f"precondition: {uid}, UID in object meta: {successor['metadata']['uid']}"
    )
    assert "nodeName" not in (await talk.get("a"))["spec"]


async def a_gated_pod_is_not_bound(talk: ApiSession) -> None:
    """Not before its gates are gone."""
    made = await talk.make(pod("a", schedulingGates=[{"name": "example.org/wait"}]))
    assert [known["reason"] for known in made["status"]["conditions"]] == ["SchedulingGated"]
    assert _told(await talk.bind("a", "n1")) == _refused("a", "pod a has non-empty .spec.schedulingGates")
    status, _ = await talk.call("PATCH", f"{talk.pods}/a", {"spec": {"schedulingGates": None}}, MERGE)
    assert status == 200
    assert (await talk.bind("a", "n1"))[0] == 201


async def a_pod_that_is_being_deleted_is_not_bound(talk: ApiSession) -> None:
    """Whatever holds it."""
    item = pod("a")
    item["metadata"]["finalizers"] = ["example.org/hold"]
    await talk.make(item)
    await talk.call("DELETE", f"{talk.pods}/a")
    wanted = _refused("a", "pod a is being deleted, cannot be assigned to a host")
    assert _told(await talk.bind("a", "n1")) == wanted


async def a_binding_must_make_sense(talk: ApiSession) -> None:
    """It names this pod and a node; whether the node exists is not asked."""
    await talk.make(pod("a"))
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "b"}, "target": {"name": "n1"}}
    status, refused = await talk.call("POST", f"{talk.pods}/a/binding", body)
    assert (status, refused["message"]) == (400, "name in URL does not match name in Binding object")
    assert (await talk.bind("a", ""))[0] == 500
    assert (await talk.bind("a", "no-such-node"))[0] == 201


async def one_of_many_bindings_wins(talk: ApiSession) -> None:
    """However many come at once."""
    uid = (await talk.make(pod("a")))["metadata"]["uid"]
    answers = await asyncio.gather(*(talk.bind("a", f"n{number}", uid) for number in range(5)))
    assert sorted(status for status, _ in answers) == [201, 409, 409, 409, 409]
    winner = next(number for number, (status, _) in enumerate(answers) if status == 201)
    assert (await talk.get("a"))["spec"]["nodeName"] == f"n{winner}"


async def a_bound_pod_has_time_to_end(talk: ApiSession) -> None:
    """It stays, marked, for its grace period; a shorter one counts, a longer one does not, none ends it."""
    await talk.make(pod("a"))
    await talk.settle("a", "n1")
    path = f"{talk.pods}/a"

    async def delete(options: Json | None = None) -> tuple[int, str]:
        status, answer = await talk.call("DELETE", path, options)
        assert status == 200, answer
        return answer["metadata"]["deletionGracePeriodSeconds"], answer["metadata"]["resourceVersion"]

    grace, version = await delete()
    assert grace == 30
    marked = await talk.get("a")
    assert marked["metadata"]["deletionTimestamp"] > marked["metadata"]["creationTimestamp"]
    assert marked["metadata"]["generation"] == 2
    assert await delete() == (30, version)
    assert await delete({"gracePeriodSeconds": 60}) == (30, version)
    assert (await delete({"gracePeriodSeconds": 20}))[0] == 20
    assert _told(await talk.bind("a", "n2")) == _refused("a", "pod a is being deleted, cannot be assigned to a host")
    assert (await delete({"gracePeriodSeconds": 0}))[0] == 0
    assert (await talk.call("GET", path))[0] == 404


async def pods_that_run_nowhere_go_at_once(talk: ApiSession) -> None:
    """Unbound, ended, or without a grace period."""
    await talk.make(pod("unbound"))
    await talk.make(pod("ended"))
    await talk.make(pod("hasty", terminationGracePeriodSeconds=0))
    for name in ("ended", "hasty"):
        await talk.settle(name, "n1")
    await talk.call("PATCH", f"{talk.pods}/ended/status", {"status": {"phase": "Succeeded"}}, MERGE)
    for name in ("unbound", "ended", "hasty"):
        status, last = await talk.call("DELETE", f"{talk.pods}/{name}")
        assert (status, last["kind"], last["metadata"]["deletionGracePeriodSeconds"]) == (200, "Pod", 0)
        assert (await talk.call("GET", f"{talk.pods}/{name}"))[0] == 404


async def _running(talk: ApiSession, name: str) -> str:
    item = pod(name)
    item["metadata"]["labels"] = {"app": "x"}
    made = await talk.make(item)
    await talk.settle(name, "n1")
    patch = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await talk.call("PATCH", f"{talk.pods}/{name}/status", patch, STRATEGIC)
    uid: str = made["metadata"]["uid"]
    return uid


async def a_budget_blocks_evictions(talk: ApiSession) -> None:
    """None while it is not computed, none when it is spent, one for each that it allows."""
    for name in "ab":
        await _running(talk, name)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    made = await talk.make(budget, talk.budgets)
    assert made["status"] == {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}

    async def evict(name: str, **options: object) -> tuple[int, Json]:
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        body |= {"deleteOptions": options} if options else {}
        return await talk.call("POST", f"{talk.pods}/{name}/eviction", body)

    async def compute(allowed: int, desired: int) -> None:
        status = {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 2}
        status |= {"desiredHealthy": desired, "expectedPods": 2}
        code, _ = await talk.call("PATCH", f"{talk.budgets}/b/status", {"status": status}, MERGE)
        assert code == 200

    def cause(answer: tuple[int, Json]) -> str:
        status, refused = answer
        words = "Cannot evict pod as it would violate the pod's disruption budget."
        assert (status, refused["reason"], refused["message"]) == (429, "TooManyRequests", words)
        message: str = refused["details"]["causes"][0]["message"]
        return message

    assert cause(await evict("a")) == "The disruption budget b is still being processed by the server."
    await compute(0, 2)
    assert cause(await evict("a")) == "The disruption budget b needs 2 healthy pods and has 2 currently"
    await compute(1, 1)
    assert (await evict("a"))[0] == 201
    evicted = await talk.get("a")
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    assert [
        (known["status"], known["reason"])
        for known in evicted["status"]["conditions"]
        if known["type"] == "DisruptionTarget"
    ] == [("True", "EvictionByEvictionAPI")]
    _, spent = await talk.call("GET", f"{talk.budgets}/b")
    assert (spent["status"]["disruptionsAllowed"], list(spent["status"]["disruptedPods"])) == (0, ["a"])
    assert cause(await evict("b")) == "The disruption budget b does not allow evicting pods currently"
    assert (await evict("a"))[0] == 201


async def evictions_ask_for_the_uid_too(talk: ApiSession) -> None:
    """A pod that runs nowhere costs no budget; another uid is refused."""
    await _running(talk, "a")
    body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    body["deleteOptions"] = {"preconditions": {"uid": "another"}}
    status, refused = await talk.call("POST", f"{talk.pods}/a/eviction", body)
    assert (status, refused["reason"]) == (409, "Conflict")
    assert refused["message"].startswith('Operation cannot be fulfilled on Pod "a": the UID in the precondition')
    await talk.make(pod("b"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b"}}
    assert (await talk.call("POST", f"{talk.pods}/b/eviction", body))[0] == 201
    assert (await talk.call("GET", f"{talk.pods}/b"))[0] == 404


async def a_deadline_that_has_passed_means_nothing_happened(talk: ApiSession) -> None:
    """The time-out in the query is the server's own."""
    await talk.make(pod("a"))
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n1"}}
    status, refused = await talk.call("POST", f"{talk.pods}/a/binding?timeout=1ns", body)
    assert status in (504, 500)
    assert "nodeName" not in (await talk.get("a"))["spec"], refused
    status, refused = await talk.call("POST", f"{talk.pods}/a/binding?timeout=soon", body)
    words = 'invalid timeout specified in the request URL - time: invalid duration "soon"'
    assert (status, refused["message"]) == (400, words)


PODS = (
    a_binding_sets_the_node_once,
    a_binding_of_another_uid_is_refused,
    a_gated_pod_is_not_bound,
    a_pod_that_is_being_deleted_is_not_bound,
    a_binding_must_make_sense,
    one_of_many_bindings_wins,
    a_bound_pod_has_time_to_end,
    pods_that_run_nowhere_go_at_once,
    a_budget_blocks_evictions,
    evictions_ask_for_the_uid_too,
    a_deadline_that_has_passed_means_nothing_happened,
)
