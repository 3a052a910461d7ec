"""The contract of reads: versions, lists, pages, watches, and error messages."""

from __future__ import annotations

import asyncio

from tests.kube.memory.contract.session import MERGE, STRATEGIC, ApiSession, Json, pod

__all__ = ["READS"]


async def versions_grow_with_every_change(talk: ApiSession) -> None:
    """Each write gives a higher version; a write that changes nothing gives none."""
    made = [int((await talk.make(pod(name)))["metadata"]["resourceVersion"]) for name in "abc"]
    assert made == sorted(set(made))
    _, changed = await talk.call("PATCH", f"{talk.pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    assert int(changed["metadata"]["resourceVersion"]) > made[-1]
    _, same = await talk.call("PATCH", f"{talk.pods}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    assert same["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]
    _, listed = await talk.call("GET", talk.pods)
    assert int(listed["metadata"]["resourceVersion"]) >= int(changed["metadata"]["resourceVersion"])
    assert (listed["kind"], listed["apiVersion"], "kind" in listed["items"][0]) == ("PodList", "v1", False)


async def a_watch_from_a_list_misses_nothing(talk: ApiSession) -> None:
    """What happens after a list comes in its order, each change once."""
    await talk.make(pod("a"))
    _, listed = await talk.call("GET", talk.pods)
    before = await talk.make(pod("b"))
    stream = await talk.watch(listed["metadata"]["resourceVersion"], seconds=3)
    await talk.settle("a", "n1")
    await talk.call("PATCH", f"{talk.pods}/b", {"metadata": {"labels": {"x": "y"}}}, MERGE)
    await talk.call("DELETE", f"{talk.pods}/b", {"gracePeriodSeconds": 0})
    events = await stream.rest()
    seen = [(event["type"], event["object"]["metadata"]["name"]) for event in events]
    changes = [("ADDED", "b"), ("MODIFIED", "a"), ("MODIFIED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]
    assert seen == changes
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert versions[0] == int(before["metadata"]["resourceVersion"])
    assert events[0]["object"]["kind"] == "Pod"
    assert events[-1]["object"]["metadata"]["deletionGracePeriodSeconds"] == 0


async def a_watch_without_a_version_begins_with_what_is_there(talk: ApiSession) -> None:
    """Version 0 or none: all objects come first, as added."""
    for name in "ba":
        await talk.make(pod(name))
    for version in ("0", ""):
        events = await (await talk.watch(version, seconds=1)).rest()
        assert sorted((event["type"], event["object"]["metadata"]["name"]) for event in events) == [
            ("ADDED", "a"),
            ("ADDED", "b"),
        ]


async def a_watch_ends_after_its_time(talk: ApiSession) -> None:
    """A quiet watch ends by itself, without an error."""
    made = await talk.make(pod("a"))
    stream = await talk.watch(made["metadata"]["resourceVersion"], seconds=1)
    assert stream.status == 200
    assert await stream.rest() == []


async def a_bookmark_carries_a_version_and_nothing_else(talk: ApiSession) -> None:
    """Two seconds before the end of a watch comes a bookmark, from which another watch can go on."""
    made = await talk.make(pod("a"))
    stream = await talk.watch(made["metadata"]["resourceVersion"], seconds=8, more="&allowWatchBookmarks=true")
    events = await stream.rest()
    assert {event["type"] for event in events} == {"BOOKMARK"}
    mark = events[0]["object"]
    assert (mark["kind"], mark["apiVersion"]) == ("Pod", "v1")
    assert int(mark["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert "name" not in mark["metadata"]
    await talk.make(pod("b"))
    events = await (await talk.watch(mark["metadata"]["resourceVersion"], seconds=1)).rest()
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [("ADDED", "b")]


async def an_object_that_leaves_a_selection_is_told_as_deleted(talk: ApiSession) -> None:
    """A watch on pods without a node loses a pod when it is bound, in the state before."""
    made = await talk.make(pod("a"))
    version = made["metadata"]["resourceVersion"]
    stream = await talk.watch(version, seconds=3, more="&fieldSelector=spec.nodeName%3D")
    other = await talk.watch(version, seconds=3, more="&fieldSelector=spec.nodeName%3Dn1")
    await talk.settle("a", "n1")
    bound = await talk.get("a")
    events = await stream.rest()
    assert [event["type"] for event in events] == ["DELETED"]
    assert events[0]["object"]["metadata"]["resourceVersion"] == bound["metadata"]["resourceVersion"]
    assert "nodeName" not in events[0]["object"]["spec"]
    assert [event["type"] for event in await other.rest()] == ["ADDED"]


async def selectors_choose(talk: ApiSession) -> None:
    """Labels and fields, as schedulers use them."""
    for name, label in (("a", "x"), ("b", "y"), ("c", "")):
        made = pod(name, schedulerName=f"s-{name}")
        made["metadata"]["labels"] = {"app": label} if label else {}
        await talk.make(made)
    await talk.settle("a", "n1")
    await talk.call("PATCH", f"{talk.pods}/b/status", {"status": {"phase": "Running"}}, STRATEGIC)
    wanted = {
        "labelSelector=app%3Dx": "a",
        "labelSelector=app": "ab",
        "labelSelector=!app": "c",
        "labelSelector=app!%3Dx": "bc",
        "labelSelector=app+in+(x,y)": "ab",
        "labelSelector=app+notin+(x)": "bc",
        "fieldSelector=spec.nodeName%3Dn1": "a",
        "fieldSelector=spec.nodeName%3D": "bc",
        "fieldSelector=spec.schedulerName%3Ds-b": "b",
        "fieldSelector=metadata.name%3Dc": "c",
        "fieldSelector=status.phase!%3DRunning,spec.nodeName%3D": "c",
    }
    for query, names in wanted.items():
        _, listed = await talk.call("GET", f"{talk.pods}?{query}")
        assert "".join(item["metadata"]["name"] for item in listed["items"]) == names, query
    status, refused = await talk.call("GET", f"{talk.pods}?fieldSelector=spec.foo%3Dx")
    assert (status, refused["message"]) == (400, "field label not supported: spec.foo")


async def pages_show_one_moment(talk: ApiSession) -> None:
    """All pages of a list are of the version of the first, whatever happens between."""
    for name in "abcde":
        await talk.make(pod(name))
    status, first = await talk.call("GET", f"{talk.pods}?limit=2")
    assert (status, first["metadata"]["remainingItemCount"]) == (200, 3)
    await talk.call("DELETE", f"{talk.pods}/d", {"gracePeriodSeconds": 0})
    await talk.make(pod("bb"))
    await talk.settle("e", "n1")
    names, version, page = [item["metadata"]["name"] for item in first["items"]], set(), first
    while page["metadata"].get("continue"):
        version.add(page["metadata"]["resourceVersion"])
        _, page = await talk.call("GET", f"{talk.pods}?limit=2&continue={page['metadata']['continue']}")
        names += [item["metadata"]["name"] for item in page["items"]]
        assert all("nodeName" not in item["spec"] for item in page["items"])
    assert names == list("abcde")
    assert version | {page["metadata"]["resourceVersion"]} == {first["metadata"]["resourceVersion"]}
    status, _ = await talk.call("GET", f"{talk.pods}?limit=2&continue=nonsense")
    assert status == 400


async def a_list_can_be_asked_not_to_be_older(talk: ApiSession) -> None:
    """A version that exists is fine, one from the future is not."""
    made = await talk.make(pod("a"))
    version = made["metadata"]["resourceVersion"]
    path = f"{talk.pods}?resourceVersionMatch=NotOlderThan&resourceVersion="
    status, listed = await talk.call("GET", path + version)
    assert (status, len(listed["items"])) == (200, 1)
    status, refused = await talk.call("GET", path + str(int(version) + 1_000_000))
    assert (status, refused["reason"]) == (504, "Timeout")
    assert refused["message"].startswith("Timeout: Too large resource version: ")
    status, refused = await talk.call("GET", f"{talk.pods}?resourceVersionMatch=NotOlderThan")
    assert (status, refused["reason"]) == (422, "Invalid")


async def what_does_not_exist_is_named(talk: ApiSession) -> None:
    """Objects, resources and groups that are not there."""
    for method, path in (("GET", "/x"), ("DELETE", "/x"), ("POST", "/x/binding"), ("POST", "/x/eviction")):
        body: Json | None = {"metadata": {"name": "x"}, "target": {"name": "n"}} if method == "POST" else None
        body = body | ({"kind": "Eviction", "apiVersion": "policy/v1"} if "eviction" in path else {}) if body else None
        status, refused = await talk.call(method, talk.pods + path, body)
        assert (status, refused["reason"], refused["message"]) == (404, "NotFound", 'pods "x" not found')
        assert refused["details"] == {"name": "x", "kind": "pods"}
    status, refused = await talk.call("GET", f"{talk.leases}/x")
    assert (status, refused["message"]) == (404, 'leases.coordination.k8s.io "x" not found')
    status, refused = await talk.call("GET", "/api/v1/nothings")
    assert (status, refused["message"]) == (404, "the server could not find the requested resource")
    for path in ("/apis/no.such.group/v1", "/apis/no.such.group/v1/things"):
        assert await talk.call("GET", path) == (404, "404 page not found\n")
    status, refused = await talk.call("POST", "/api/v1/namespaces/no-such/pods", pod("a"))
    assert (status, refused["message"]) == (404, 'namespaces "no-such" not found')
    status, refused = await talk.call("PUT", talk.pods, {})
    assert (status, refused["reason"]) == (405, "MethodNotAllowed")


async def the_server_says_what_it_serves(talk: ApiSession) -> None:
    """Version and discovery."""
    status, version = await talk.call("GET", "/version")
    assert (status, version["gitVersion"][:3]) == (200, "v1.")
    status, found = await talk.call("GET", "/apis/coordination.k8s.io/v1")
    assert (status, found["kind"], found["groupVersion"]) == (200, "APIResourceList", "coordination.k8s.io/v1")
    assert [(known["name"], known["namespaced"], known["kind"]) for known in found["resources"]][:1] == [
        ("leases", True, "Lease")
    ]
    _, core = await talk.call("GET", "/api/v1")
    assert {"pods", "pods/binding", "pods/eviction", "pods/status", "nodes"} <= {
        known["name"] for known in core["resources"]
    }
    assert await talk.call("GET", "/livez") == (200, "ok")


async def two_watches_see_the_same(talk: ApiSession) -> None:
    """All watchers see the same changes in the same order."""
    made = await talk.make(pod("a"))
    streams = [await talk.watch(made["metadata"]["resourceVersion"], seconds=3) for _ in range(2)]

    async def label(value: int) -> None:
        await talk.call("PATCH", f"{talk.pods}/a", {"metadata": {"labels": {"n": str(value)}}}, MERGE)

    await asyncio.gather(*(label(value) for value in range(8)))
    first, second = [await stream.rest() for stream in streams]
    assert first == second
    assert len(first) == 8


READS = (
    versions_grow_with_every_change,
    a_watch_from_a_list_misses_nothing,
    a_watch_without_a_version_begins_with_what_is_there,
    a_watch_ends_after_its_time,
    a_bookmark_carries_a_version_and_nothing_else,
    an_object_that_leaves_a_selection_is_told_as_deleted,
    selectors_choose,
    pages_show_one_moment,
    a_list_can_be_asked_not_to_be_older,
    what_does_not_exist_is_named,
    the_server_says_what_it_serves,
    two_watches_see_the_same,
)
