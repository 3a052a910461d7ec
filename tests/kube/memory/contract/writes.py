"""The contract of writes: preconditions, patches, statuses, leases, deletion with finalizers."""

from __future__ import annotations

import asyncio

from tests.kube.memory.contract.session import JSON_PATCH, MERGE, STRATEGIC, ApiSession, Json, pod

__all__ = ["WRITES"]

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def a_name_is_taken_once(talk: ApiSession) -> None:
    """A second object of the same name is refused; a generated name is new."""
    await talk.make(pod("a"))
    status, refused = await talk.call("POST", talk.pods, pod("a"))
    assert (status, refused["reason"], refused["message"]) == (409, "AlreadyExists", 'pods "a" already exists')
    item = pod("") | {"metadata": {"generateName": "a-"}}
    names = {(await talk.make(item))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("a-") and len(name) == 7 for name in names)


async def a_new_pod_gets_its_defaults(talk: ApiSession) -> None:
    """What a scheduler relies on is there."""
    made = await talk.make(pod("a"))
    spec, metadata = made["spec"], made["metadata"]
    assert (
        spec["schedulerName"],
        spec["priority"],
        spec["preemptionPolicy"],
        spec["terminationGracePeriodSeconds"],
    ) == (
        "default-scheduler",
        0,
        "PreemptLowerPriority",
        30,
    )
    assert made["status"]["phase"] == "Pending"
    assert sorted(known["key"] for known in spec["tolerations"]) == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert (metadata["generation"], metadata["namespace"], bool(metadata["uid"])) == (1, talk.namespace, True)
    limited = pod("b")
    limited["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    made = await talk.make(limited)
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    status, refused = await talk.call("POST", talk.pods, pod("c", priorityClassName="no-such"))
    assert (status, refused["message"]) == (403, 'pods "c" is forbidden: no PriorityClass with name no-such was found')
    critical = await talk.make(pod("d", priorityClassName="system-node-critical"))
    assert critical["spec"]["priority"] == 2_000_001_000
    status, refused = await talk.call("POST", talk.pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e"}})
    assert (status, refused["reason"]) == (422, "Invalid")


async def a_stale_version_is_refused(talk: ApiSession) -> None:
    """Replace and patch with an old version: conflict; without a version: the last one wins."""
    made = await talk.make(pod("a"))
    path = f"{talk.pods}/a"
    await talk.call("PATCH", path, {"metadata": {"labels": {"x": "1"}}}, MERGE)
    old = made["metadata"]["resourceVersion"]
    wanted = (409, "Conflict", f'Operation cannot be fulfilled on pods "a": {_MODIFIED}')
    status, refused = await talk.call("PUT", path, made)
    assert (status, refused["reason"], refused["message"]) == wanted
    for kind in (MERGE, STRATEGIC):
        patch = {"metadata": {"resourceVersion": old, "labels": {"x": "2"}}}
        status, refused = await talk.call("PATCH", path, patch, kind)
        assert (status, refused["reason"], refused["message"]) == wanted
    del made["metadata"]["resourceVersion"]
    made["metadata"]["labels"] = {"x": "3"}
    status, replaced = await talk.call("PUT", path, made)
    assert (status, replaced["metadata"]["labels"]) == (200, {"x": "3"})


async def another_uid_is_refused(talk: ApiSession) -> None:
    """An object that was recreated under the same name is another one."""
    made = await talk.make(pod("a"))
    uid, path = made["metadata"]["uid"], f"{talk.pods}/a"
    made["metadata"]["uid"] = "another"
    status, refused = await talk.call("PUT", path, made)
    assert (status, refused["reason"]) == (409, "Conflict")
    assert f"Precondition failed: UID in precondition: another, UID in object meta: {uid}" in refused["message"]
    for place, kind in ((path, MERGE), (f"{path}/status", STRATEGIC)):
        status, refused = await talk.call("PATCH", place, {"metadata": {"uid": "another", "labels": {"x": "y"}}}, kind)
        assert (status, refused["reason"]) == (422, "Invalid")
        assert refused["message"] == 'Pod "a" is invalid: metadata.uid: Invalid value: "another": field is immutable'
    status, refused = await talk.call("DELETE", path, {"preconditions": {"uid": "another"}})
    assert (status, refused["reason"], refused["message"]) == (
        409,
        "Conflict",
        f'Operation cannot be fulfilled on Pod "a": the UID in the precondition (another) does not match the UID in '
        f"record ({uid}). The object might have been deleted and then recreated",
    )
    status, refused = await talk.call("DELETE", path, {"preconditions": {"resourceVersion": "1"}})
    assert (status, refused["reason"]) == (409, "Conflict")
    assert (await talk.get("a"))["metadata"]["uid"] == uid


async def status_and_spec_are_written_apart(talk: ApiSession) -> None:
    """The status subresource leaves the spec alone, and the other way round."""
    await talk.make(pod("a"))
    path = f"{talk.pods}/a"
    patch: Json = {"metadata": {"labels": {"x": "1"}}, "status": {"phase": "Failed"}}
    _, changed = await talk.call("PATCH", path, patch, MERGE)
    assert (changed["metadata"]["labels"], changed["status"]["phase"]) == ({"x": "1"}, "Pending")
    patch = {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    status, changed = await talk.call("PATCH", f"{path}/status", patch, STRATEGIC)
    assert (status, changed["status"]["phase"], "nodeName" in changed["spec"]) == (200, "Running", False)
    status, refused = await talk.call("PATCH", path, {"spec": {"nodeName": "n1"}}, MERGE)
    assert (status, refused["reason"]) == (422, "Invalid")
    assert refused["message"].startswith('Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other')


async def conditions_merge_by_type(talk: ApiSession) -> None:
    """A strategic merge patch changes one condition; a merge patch replaces them all."""
    await talk.make(pod("a"))
    path = f"{talk.pods}/a/status"

    async def conditions(kind: str, *given: Json) -> dict[str, Json]:
        status, changed = await talk.call("PATCH", path, {"status": {"conditions": list(given)}}, kind)
        assert status == 200, changed
        return {known["type"]: known for known in changed["status"]["conditions"]}

    await conditions(STRATEGIC, {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"})
    found = await conditions(
        STRATEGIC, {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    )
    assert sorted(found) == ["DisruptionTarget", "PodScheduled"]
    found = await conditions(STRATEGIC, {"type": "PodScheduled", "message": "n"})
    assert (found["PodScheduled"]["reason"], found["PodScheduled"]["message"]) == ("Unschedulable", "n")
    assert sorted(await conditions(MERGE, {"type": "PodScheduled", "status": "False"})) == ["PodScheduled"]
    _, changed = await talk.call("PATCH", path, {"status": {"nominatedNodeName": "n1"}}, MERGE)
    assert changed["status"]["nominatedNodeName"] == "n1"
    _, changed = await talk.call("PATCH", path, {"status": {"nominatedNodeName": None}}, MERGE)
    assert "nominatedNodeName" not in changed["status"]


async def json_patches_test_before_they_change(talk: ApiSession) -> None:
    """All steps or none."""
    item = pod("a")
    item["metadata"]["labels"] = {"x": "1"}
    await talk.make(item)
    path = f"{talk.pods}/a"
    test = {"op": "test", "path": "/metadata/labels/x", "value": "1"}
    add = {"op": "add", "path": "/metadata/labels/example.org~1y", "value": "2"}
    status, changed = await talk.call("PATCH", path, [test, add], JSON_PATCH)
    assert (status, changed["metadata"]["labels"]) == (200, {"x": "1", "example.org/y": "2"})
    replace = {"op": "replace", "path": "/metadata/labels/x", "value": "3"}
    for steps in ([replace, test], [{"op": "remove", "path": "/metadata/labels/none"}]):
        status, refused = await talk.call("PATCH", path, steps, JSON_PATCH)
        assert (status, refused["reason"]) == (422, "Invalid")
    _, changed = await talk.call("PATCH", path, [{"op": "remove", "path": "/metadata/labels/x"}], JSON_PATCH)
    assert changed["metadata"]["labels"] == {"example.org/y": "2"}


async def one_of_two_wins_a_lease(talk: ApiSession) -> None:
    """Two writers from the same version: one success, one conflict; and creation is a race of its own."""
    lease: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    answers = await asyncio.gather(*(talk.call("POST", talk.leases, lease) for _ in range(2)))
    assert sorted(status for status, _ in answers) == [201, 409]
    made = next(body for status, body in answers if status == 201)
    bids = [made | {"spec": {"holderIdentity": name, "leaseDurationSeconds": 15}} for name in "xyz"]
    answers = await asyncio.gather(*(talk.call("PUT", f"{talk.leases}/l", bid) for bid in bids))
    assert sorted(status for status, _ in answers) == [200, 409, 409]
    won = next(body for status, body in answers if status == 200)
    lost = next(body for status, body in answers if status == 409)
    assert lost["message"] == f'Operation cannot be fulfilled on leases.coordination.k8s.io "l": {_MODIFIED}'
    _, found = await talk.call("GET", f"{talk.leases}/l")
    assert found["spec"] == won["spec"]
    status, refused = await talk.call("PUT", f"{talk.leases}/l", lease)
    assert (status, refused["message"]) == (
        422,
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for '
        "an update",
    )


async def finalizers_hold_an_object(talk: ApiSession) -> None:
    """A deleted object with a finalizer stays until the finalizer goes."""
    item = pod("a")
    item["metadata"]["finalizers"] = ["example.org/hold"]
    await talk.make(item)
    path = f"{talk.pods}/a"
    status, marked = await talk.call("DELETE", path)
    assert (status, marked["metadata"]["deletionGracePeriodSeconds"]) == (200, 0)
    assert (await talk.get("a"))["metadata"]["deletionTimestamp"]
    status, _ = await talk.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)
    assert status == 200
    status, _ = await talk.call("GET", path)
    assert status == 404


async def what_is_no_pod_goes_at_once(talk: ApiSession) -> None:
    """Deletion of other objects answers with a Status, and one event tells it."""
    lease: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
    made = await talk.make(lease, talk.leases)
    stream = await talk.watch(made["metadata"]["resourceVersion"], path=talk.leases, seconds=2)
    status, answer = await talk.call("DELETE", f"{talk.leases}/l")
    assert (status, answer["kind"], answer["status"]) == (200, "Status", "Success")
    assert answer["details"]["uid"] == made["metadata"]["uid"]
    assert [event["type"] for event in await stream.rest()] == ["DELETED"]


async def names_and_namespaces_must_agree(talk: ApiSession) -> None:
    """A body that belongs elsewhere is refused."""
    made = await talk.make(pod("a"))
    status, refused = await talk.call("PUT", f"{talk.pods}/b", made)
    assert (status, refused["message"]) == (400, "the name of the object (a) does not match the name on the URL (b)")
    item = pod("c")
    item["metadata"]["namespace"] = "default"
    status, refused = await talk.call("POST", talk.pods, item)
    words = "the namespace of the provided object does not match the namespace sent on the request"
    assert (status, refused["message"]) == (400, words)


async def events_are_taken(talk: ApiSession) -> None:
    """The events of schedulers can be written and read."""
    path = f"/apis/events.k8s.io/v1/namespaces/{talk.namespace}/events"
    event: Json = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a.1"},
        "eventTime": "2026-01-05T09:00:00.000000Z",
        "reportingController": "contract",
        "reportingInstance": "contract-1",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "bound",
        "regarding": {"kind": "Pod", "name": "a", "namespace": talk.namespace},
    }
    await talk.make(event, path)
    _, found = await talk.call("GET", path)
    assert [known["note"] for known in found["items"]] == ["bound"]


WRITES = (
    a_name_is_taken_once,
    a_new_pod_gets_its_defaults,
    a_stale_version_is_refused,
    another_uid_is_refused,
    status_and_spec_are_written_apart,
    conditions_merge_by_type,
    json_patches_test_before_they_change,
    one_of_two_wins_a_lease,
    finalizers_hold_an_object,
    what_is_no_pod_goes_at_once,
    names_and_namespaces_must_agree,
    events_are_taken,
)
