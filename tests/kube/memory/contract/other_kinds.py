"""The contract of rarer operations: nodes, priority classes, reviews, groups, unusual deletions."""

from __future__ import annotations

from tests.kube.memory.contract.session import MERGE, STRATEGIC, ApiSession, Json, pod

__all__ = ["MORE"]


async def nodes_have_a_status_of_their_own(talk: ApiSession) -> None:
    """Created with it, then changed apart; another replacement needs no version."""
    name = f"node-{talk.namespace}"
    status: Json = {"allocatable": {"cpu": "2", "pods": "110"}, "capacity": {"cpu": "2", "pods": "110"}}
    item: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    made = await talk.make(item, "/api/v1/nodes")
    assert made["status"]["allocatable"] == {"cpu": "2", "pods": "110"}
    path = f"/api/v1/nodes/{name}"
    patch: Json = {"spec": {"unschedulable": True}, "status": {"allocatable": {"cpu": "1"}}}
    _, changed = await talk.call("PATCH", path, patch, STRATEGIC)
    assert (changed["spec"]["unschedulable"], changed["status"]["allocatable"]["cpu"]) == (True, "2")
    _, changed = await talk.call(
        "PATCH", f"{path}/status", {"spec": {"unschedulable": False}} | {"status": patch["status"]}, MERGE
    )
    assert (changed["spec"]["unschedulable"], changed["status"]["allocatable"]) == (True, {"cpu": "1", "pods": "110"})
    taints = [{"key": "a", "effect": "NoSchedule"}]
    _, changed = await talk.call("PATCH", path, {"spec": {"taints": taints}}, MERGE)
    del changed["metadata"]["resourceVersion"]
    changed["metadata"]["labels"] = {"zone": "z1"}
    code, replaced = await talk.call("PUT", path, changed)
    assert (code, replaced["metadata"]["labels"]["zone"], replaced["spec"]["taints"]) == (200, "z1", taints)
    code, answer = await talk.call("DELETE", path, {"preconditions": {"uid": "another"}})
    assert (code, answer["reason"]) == (409, "Conflict")
    code, answer = await talk.call("DELETE", path, {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert (code, answer["status"], answer["details"]["kind"]) == (200, "Success", "nodes")


async def a_priority_class_gives_pods_its_value(talk: ApiSession) -> None:
    """Value and policy come from the class; a pod cannot set its own."""
    name = f"class-{talk.namespace}"
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    item: Json = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    await talk.make(item | {"value": 77, "preemptionPolicy": "Never"}, path)
    made = await talk.make(pod("a", priorityClassName=name))
    assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (77, "Never")
    code, refused = await talk.call("POST", talk.pods, pod("b", priorityClassName=name, priority=78))
    assert (code, refused["message"]) == (
        403,
        'pods "b" is forbidden: the integer value of priority (78) must not be provided in pod spec; priority '
        "admission controller computed 77 from the given PriorityClass name",
    )
    await talk.call("DELETE", f"{path}/{name}")


async def a_pod_s_spec_is_nearly_fixed(talk: ApiSession) -> None:
    """Images and more tolerations may come; while gated, narrower selectors too."""
    await talk.make(pod("a"))
    path = f"{talk.pods}/a"
    image = {"spec": {"containers": [{"name": "c", "image": "j"}]}}
    code, changed = await talk.call("PATCH", path, image, STRATEGIC)
    assert (code, changed["spec"]["containers"][0]["image"], changed["metadata"]["generation"]) == (200, "j", 2)
    more = [*changed["spec"]["tolerations"], {"key": "x", "operator": "Exists"}]
    code, changed = await talk.call("PATCH", path, {"spec": {"tolerations": more}}, MERGE)
    assert (code, len(changed["spec"]["tolerations"])) == (200, 3)
    fixed: tuple[Json, ...] = (
        {"nodeSelector": {"a": "b"}},
        {"schedulerName": "s"},
        {"priority": 5},
        {"tolerations": []},
    )
    for spec in fixed:
        code, refused = await talk.call("PATCH", path, {"spec": spec}, MERGE)
        assert (code, refused["reason"]) == (422, "Invalid"), spec
    await talk.make(pod("g", schedulingGates=[{"name": "example.org/wait"}]))
    code, changed = await talk.call("PATCH", f"{talk.pods}/g", {"spec": {"nodeSelector": {"a": "b"}}}, MERGE)
    assert (code, changed["spec"]["nodeSelector"]) == (200, {"a": "b"})
    code, _ = await talk.call("PATCH", path, {"spec": {"schedulingGates": [{"name": "example.org/new"}]}}, MERGE)
    assert code == 422


async def a_budget_is_replaced_only_at_its_version(talk: ApiSession) -> None:
    """Without a version the answer is no."""
    spec: Json = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    item: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    made = await talk.make(item, talk.budgets)
    code, refused = await talk.call("PUT", f"{talk.budgets}/b", item)
    assert (code, refused["reason"]) == (422, "Invalid")
    made["spec"]["minAvailable"] = 2
    code, changed = await talk.call("PUT", f"{talk.budgets}/b", made)
    assert (code, changed["metadata"]["generation"]) == (200, 2)


async def _ready(talk: ApiSession, name: str, value: str) -> None:
    item = pod(name)
    item["metadata"]["labels"] = {"app": "x"}
    await talk.make(item)
    await talk.settle(name, "n1")
    patch = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": value}]}}
    await talk.call("PATCH", f"{talk.pods}/{name}/status", patch, STRATEGIC)


async def a_pod_that_is_not_ready_is_evicted_without_cost(talk: ApiSession) -> None:
    """While the others suffice; and two budgets for one pod are too many."""
    await _ready(talk, "sick", "False")
    await _ready(talk, "well", "True")
    spec: Json = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    item: Json = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    await talk.make(item, talk.budgets)
    status: Json = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1}
    status["expectedPods"] = 2

    async def evict(name: str) -> int:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        return (await talk.call("POST", f"{talk.pods}/{name}/eviction", body))[0]

    await talk.call("PATCH", f"{talk.budgets}/b/status", {"status": status}, MERGE)
    assert await evict("sick") == 429
    await talk.call("PATCH", f"{talk.budgets}/b/status", {"status": {"currentHealthy": 1}}, MERGE)
    assert await evict("sick") == 201
    assert await evict("well") == 429
    await talk.make(item | {"metadata": {"name": "c"}}, talk.budgets)
    assert await evict("well") == 500


async def a_collection_can_be_deleted(talk: ApiSession) -> None:
    """All pods of a namespace, or those that a selector finds; options may stand in the query."""
    for name in "abc":
        item = pod(name)
        item["metadata"]["labels"] = {"is": name}
        await talk.make(item)
    await talk.settle("a", "n1")
    code, _ = await talk.call("DELETE", f"{talk.pods}?labelSelector=is+in+(a,b)")
    assert code == 200
    _, left = await talk.call("GET", talk.pods)
    found = {item["metadata"]["name"]: "deletionTimestamp" in item["metadata"] for item in left["items"]}
    assert found == {"a": True, "c": False}
    code, _ = await talk.call("DELETE", f"{talk.pods}/a?gracePeriodSeconds=0")
    assert (code, (await talk.call("GET", f"{talk.pods}/a"))[0]) == (200, 404)


async def a_binding_may_name_a_version_too(talk: ApiSession) -> None:
    """Then it counts only for that state of the pod."""
    made = await talk.make(pod("a"))
    await talk.call("PATCH", f"{talk.pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    metadata = {"name": "a", "resourceVersion": made["metadata"]["resourceVersion"]}
    body: Json = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"name": "n1"}}
    code, refused = await talk.call("POST", f"{talk.pods}/a/binding", body)
    assert (code, refused["reason"]) == (409, "Conflict")
    body["metadata"]["resourceVersion"] = (await talk.get("a"))["metadata"]["resourceVersion"]
    assert (await talk.call("POST", f"{talk.pods}/a/binding", body))[0] == 201


async def reviews_are_answered_and_not_kept(talk: ApiSession) -> None:
    """Who a token is, and what one may do."""
    body: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "no such token"}}
    code, answer = await talk.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
    assert (code, answer["status"].get("authenticated", False), answer["kind"]) == (201, False, "TokenReview")
    rule = {"verb": "list", "resource": "pods"}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": rule},
    }
    code, answer = await talk.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert (code, answer["status"]["allowed"]) == (201, True)


async def a_watch_can_begin_with_all_objects_and_say_when_they_are_told(talk: ApiSession) -> None:
    """The streaming list: objects as added, then a bookmark that marks the end of the beginning."""
    for name in "ab":
        await talk.make(pod(name))
    more = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    stream = await talk.watch("", seconds=60, more=more)
    told = [await stream.next() for _ in range(3)]
    assert [event["type"] for event in told if event] == ["ADDED", "ADDED", "BOOKMARK"]
    mark = told[2] or {}
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await talk.make(pod("c"))
    event = await stream.next()
    while event and event["type"] == "BOOKMARK":  # a server that takes long sends more of them, without that mark
        assert "annotations" not in event["object"]["metadata"]
        event = await stream.next()
    assert event is not None
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "c")
    await stream.close()


MORE = (
    nodes_have_a_status_of_their_own,
    a_priority_class_gives_pods_its_value,
    a_pod_s_spec_is_nearly_fixed,
    a_budget_is_replaced_only_at_its_version,
    a_pod_that_is_not_ready_is_evicted_without_cost,
    a_collection_can_be_deleted,
    a_binding_may_name_a_version_too,
    reviews_are_answered_and_not_kept,
    a_watch_can_begin_with_all_objects_and_say_when_they_are_told,
)
