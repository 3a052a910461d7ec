import asyncio

import pytest

from hostler.kube.memory import ApiServer, DisruptionController, Kubelet, ServedKind
from hostler.kube.memory.virtual_time import run_simulation
from hostler.runtime.transport import Request
from tests.async_tests import run_with
from tests.kube.memory.api_requests import PODS, bind, events, node, pod, send, watch


def _run(main):
    for seed in range(3):
        run_simulation(main, seed)


@run_with(_run)
async def test_the_log_tells_when_a_request_came_took_effect_and_was_answered():
    server = ApiServer()
    made = server.put(pod("a"))
    assert await bind(server.transport("me"), "a", made["metadata"]["uid"], "n1") == 201
    entry = server.log[-1]
    assert (entry.is_bind, entry.user, entry.status, entry.told) == (True, "me", 201, 201)
    assert entry.arrived == entry.committed
    assert entry.sent < (entry.arrived or 0) < (entry.told_at or 0)
    assert entry.version == server.store.version


@run_with(_run)
async def test_history_that_was_compacted_is_gone_for_watches_and_pages():
    server = ApiServer()
    transport = server.transport()
    for name in "abc":
        server.put(pod(name))
    _, page = await send(transport, "GET", f"{PODS}?limit=1")
    old = page["metadata"]["resourceVersion"]
    server.put(pod("d"))
    server.compact()
    told = await events(await watch(transport, old))
    assert [(event["type"], event["object"]["code"], event["object"]["reason"]) for event in told] == [
        ("ERROR", 410, "Expired")
    ]
    assert told[0]["object"]["message"] == f"too old resource version: {old} ({server.store.version})"
    status, refused = await send(transport, "GET", f"{PODS}?limit=1&continue={page['metadata']['continue']}")
    assert (status, refused["reason"]) == (410, "Expired")
    _, rest = await send(transport, "GET", f"{PODS}?continue={refused['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c", "d"]
    status, _ = await send(transport, "GET", f"{PODS}?resourceVersion={old}&resourceVersionMatch=Exact")
    assert status == 410
    assert await events(await watch(transport, server.store.version, "&timeoutSeconds=1")) == []


@run_with(_run)
async def test_a_bookmark_comes_every_minute():
    server = ApiServer()
    told = await events(await watch(server.transport(), server.store.version, "&timeoutSeconds=150"))
    assert [event["type"] for event in told] == ["BOOKMARK"] * 3
    assert asyncio.get_running_loop().time() >= 150


@run_with(_run)
async def test_a_user_may_not_do_what_is_denied():
    server = ApiServer()
    server.put(pod("a"))
    server.permissions.denied |= {("me", "create", "pods/binding"), ("*", "list", "nodes")}
    transport = server.transport("me")
    status, refused = await send(transport, "POST", f"{PODS}/a/binding", {"target": {"name": "n"}})
    assert (status, refused["message"]) == (
        403,
        'pods "a" is forbidden: User "me" cannot create resource "pods/binding" in API group "" in the namespace '
        '"default"',
    )
    status, refused = await send(transport, "GET", "/api/v1/nodes")
    words = 'nodes is forbidden: User "me" cannot list resource "nodes" in API group "" at the cluster scope'
    assert (status, refused["message"]) == (403, words)
    assert (await send(transport, "GET", "/api/v1/pods"))[0] == 200
    rule = {"verb": "create", "resource": "pods", "subresource": "binding"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    for user, allowed in (("me", False), ("you", True)):
        _, review = await send(transport, "POST", path, {"spec": {"user": user, "resourceAttributes": rule}})
        assert review["status"]["allowed"] is allowed


@run_with(_run)
async def test_a_token_review_knows_the_tokens_that_it_was_given():
    server = ApiServer()
    server.permissions.tokens["t"] = {"username": "me", "groups": ["g"]}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    _, known = await send(server.transport(), "POST", path, {"spec": {"token": "t"}})
    assert known["status"] == {"authenticated": True, "user": {"username": "me", "groups": ["g"]}}
    _, unknown = await send(server.transport(), "POST", path, {"spec": {"token": "u"}})
    assert unknown["status"] == {"user": {}, "error": "invalid bearer token"}


@run_with(_run)
async def test_absent_api_is_not_found_until_it_is_defined():
    server = ApiServer(without=("scheduling.k8s.io/v1beta1",))
    transport = server.transport()
    path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
    for absent in ("/apis/scheduling.k8s.io/v1beta1/podgroups", "/apis/scheduling.k8s.io/v1beta1", path):
        answer = await transport.send(Request(method="GET", path=absent))
        assert (answer.status, await answer.read()) == (404, b"404 page not found\n")
    version = {"name": "v1alpha1", "served": True, "subresources": {"status": {}}}
    names = {"plural": "podgroups", "kind": "PodGroup"}
    spec = {"group": "scheduling.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"metadata": {"name": "podgroups.scheduling.x-k8s.io"}, "spec": spec}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert (await send(transport, "POST", definitions, definition))[0] == 201
    status, made = await send(transport, "POST", path, {"metadata": {"name": "g"}, "spec": {"minMember": 2}})
    assert (status, made["apiVersion"], made["kind"]) == (201, "scheduling.x-k8s.io/v1alpha1", "PodGroup")
    _, listed = await send(transport, "GET", path)
    assert listed["items"][0]["kind"] == "PodGroup"
    status, refused = await send(transport, "PUT", f"{path}/g", {"metadata": {"name": "g"}})
    assert (status, refused["reason"]) == (422, "Invalid")
    await send(transport, "DELETE", f"{definitions}/podgroups.scheduling.x-k8s.io")
    assert (await transport.send(Request(method="GET", path=path))).status == 404


@run_with(_run)
async def test_any_resource_can_be_registered():
    server = ApiServer()
    server.register(ServedKind(group="example.org", version="v1", plural="things", kind="Thing", is_namespaced=False))
    server.put({"kind": "Thing", "metadata": {"name": "t"}, "size": 3})
    _, found = await send(server.transport(), "GET", "/apis/example.org/v1/things/t")
    assert (found["kind"], found["size"]) == ("Thing", 3)


@run_with(_run)
async def test_a_namespace_that_ends_takes_no_new_pods():
    server = ApiServer()
    server.delete("namespaces", "default")
    status, refused = await send(server.transport(), "POST", PODS, pod("a"))
    assert (status, refused["reason"]) == (403, "Forbidden")
    assert "because it is being terminated" in refused["message"]


@run_with(_run)
async def test_the_kubelet_starts_pods_and_ends_them_after_their_grace_period():
    server = ApiServer()
    server.put(node("n1"))
    Kubelet(server, start_s=0.5, end_s=10.0)
    for name, grace in (("short", 3), ("long", 60)):
        made = server.put(pod(name, terminationGracePeriodSeconds=grace))
        await bind(server.transport(), name, made["metadata"]["uid"], "n1")
    await asyncio.sleep(1)
    assert [item["status"]["phase"] for item in server.objects("pods")] == ["Running", "Running"]
    for name in ("short", "long"):
        server.delete("pods", name)
    await asyncio.sleep(2)
    assert len(server.objects("pods")) == 2
    await asyncio.sleep(2)
    assert [item["metadata"]["name"] for item in server.objects("pods")] == ["long"]
    await asyncio.sleep(7)
    assert server.objects("pods") == []


@run_with(_run)
async def test_the_kubelet_refuses_a_pod_that_does_not_fit():
    server = ApiServer()
    server.put(node("n1", cpu="2"))
    kubelet = Kubelet(server)
    for name in "abc":
        made = server.put(pod(name))
        await bind(server.transport(), name, made["metadata"]["uid"], "n1")
        await asyncio.sleep(1)
    assert [item["status"]["phase"] for item in server.objects("pods")] == ["Running", "Running", "Failed"]
    assert (server.get("pods", "c") or {})["status"]["reason"] == "OutOfcpu"
    assert kubelet.refused == ["c"]


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [({"minAvailable": 2}, 1), ({"minAvailable": "50%"}, 1), ({"maxUnavailable": 1}, 1), ({"maxUnavailable": 0}, 0)],
)
@run_with(run_simulation, 1)
async def test_the_budget_of_three_running_pods(spec, allowed):
    server = ApiServer()
    server.put(node("n1"))
    Kubelet(server)
    DisruptionController(server)
    selector = {"selector": {"matchLabels": {"app": "x"}}}
    server.put({"kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec | selector})
    for name in "abc":
        made = server.put(pod(name))
        await bind(server.transport(), name, made["metadata"]["uid"], "n1")
    await asyncio.sleep(2)
    status = (server.get("poddisruptionbudgets", "b") or {})["status"]
    assert (status["disruptionsAllowed"], status["currentHealthy"]) == (allowed, 3)
    statuses = []
    for name in "abc":
        body = {"metadata": {"name": name}}
        statuses.append((await send(server.transport(), "POST", f"{PODS}/{name}/eviction", body))[0])
        await asyncio.sleep(40)
    assert statuses.count(201) >= allowed
    assert statuses[0] == (201 if allowed else 429)


@run_with(_run)
async def test_pods_of_a_node_that_is_gone_are_collected_unless_it_comes_back():
    server = ApiServer()
    Kubelet(server, collect_s=40.0)
    for name in ("gone", "back"):
        made = server.put(pod(name))
        await bind(server.transport(), name, made["metadata"]["uid"], f"node-{name}")
    await asyncio.sleep(20)
    server.put(node("node-back"))
    await asyncio.sleep(30)
    assert [(item["metadata"]["name"], item["status"]["phase"]) for item in server.objects("pods")] == [
        ("back", "Running")
    ]
    server.delete("nodes", "node-back")
    await asyncio.sleep(50)
    assert server.objects("pods") == []
