"""The requests of a client, and how it handles responses."""

from __future__ import annotations

import asyncio
import json

import pytest

from hostler.errors import InputError
from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import LEASES, NODES, POD_GROUPS, PODS
from tests.kube.api.scripted_server import ReceivedCall, Wire, client_of, page, pod


async def answer_with(client_work, *answers):
    """Give each call the next response; return the result of the work, and the calls."""
    left = list(answers)

    async def script(call: ReceivedCall, wire: Wire) -> None:
        status, data, headers = (*left.pop(0), {})[:3]
        await wire.answer(status, data, **headers)

    async with client_of(script) as (client, server):
        return await client_work(client), server.calls


def run(client_work, *answers):
    return asyncio.run(answer_with(client_work, *answers))


def test_a_list_goes_through_all_pages_and_has_the_version_of_the_last():
    listing, calls = run(
        lambda client: client.list(PODS, labels="a=b", fields="spec.nodeName=", page=2),
        (200, page([pod("a"), pod("b")], 7, "next")),
        (200, page([pod("c")], 7)),
    )
    assert [item.metadata.name for item in listing.items] == ["a", "b", "c"]
    assert listing.version == "7"
    assert calls[0].path == "/api/v1/pods"
    assert calls[0].query == {"labelSelector": "a=b", "fieldSelector": "spec.nodeName=", "limit": "2"}
    assert calls[1].query["continue"] == "next"


def test_a_page_that_expired_starts_the_list_over_without_pages():
    expired = {"kind": "Status", "code": 410, "reason": "Expired"}
    listing, calls = run(
        lambda client: client.list(PODS, "default", page=1),
        (200, page([pod("old")], 3, "next")),
        (410, expired),
        (200, page([pod("a"), pod("b")], 9)),
    )
    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert listing.version == "9"
    assert calls[2].query == {}


def test_a_list_that_is_expired_from_the_start_is_an_error():
    with pytest.raises(ApiError) as caught:
        run(lambda client: client.list(PODS), (410, {"reason": "Expired", "message": "too old"}))
    assert caught.value.is_expired


def test_a_version_asks_for_a_list_not_older_and_only_on_the_first_page():
    _, calls = run(lambda client: client.list(NODES, version="5"), (200, page([], 6, "next")), (200, page([], 6)))
    assert calls[0].query == {"limit": "500", "resourceVersion": "5", "resourceVersionMatch": "NotOlderThan"}
    assert calls[1].query == {"limit": "500", "continue": "next"}


def test_a_list_whose_items_are_null_is_empty():
    listing, _ = run(lambda client: client.list(PODS), (200, {"metadata": {"resourceVersion": "4"}, "items": None}))
    assert (listing.items, listing.version) == ([], "4")


def test_a_poison_object_does_not_spoil_its_list():
    poison = pod("poison", 5)
    poison["spec"] = {"containers": [{"name": 7}]}
    listing, _ = run(lambda client: client.list(PODS), (200, page([pod("a"), poison, pod("b")], 7)))
    first, broken, last = listing.items
    assert (first.metadata.name, last.metadata.name) == ("a", "b")
    assert isinstance(broken, UndecodableObject)
    assert (broken.namespace, broken.name, broken.uid, broken.version) == ("default", "poison", "uid-poison", "5")
    assert "spec.containers[0].name" in broken.error


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"kind":"Status","metadata":{}}', b'{"items":7}', b"[]", b""])
def test_what_is_no_list_is_an_error_and_never_an_empty_list(body):
    with pytest.raises(InputError, match="the list of pods"):
        run(lambda client: client.list(PODS), (200, body))


def test_a_bind_names_uid_and_node_and_takes_any_success():
    work = lambda client: client.bind("ns", "web-0", "uid-1", "node-7", annotations={"a": "b"}, timeout_s=4.5)  # noqa: E731
    result, (call,) = run(work, (201, {"kind": "Status", "status": "Success"}))
    assert result is None
    assert (call.method, call.path, call.query) == (
        "POST",
        "/api/v1/namespaces/ns/pods/web-0/binding",
        {"timeout": "4.5s"},
    )
    assert call.data["metadata"] == {"namespace": "ns", "name": "web-0", "uid": "uid-1", "annotations": {"a": "b"}}
    assert call.data["target"] == {"apiVersion": "v1", "kind": "Node", "name": "node-7"}


def test_a_bind_that_lost_the_race_is_a_conflict():
    work = lambda client: client.bind("ns", "web-0", "uid-1", "node-7", timeout_s=4)  # noqa: E731
    with pytest.raises(ApiError, match="already assigned") as caught:
        run(work, (409, {"reason": "Conflict", "message": "pod web-0 is already assigned to node x"}))
    assert caught.value.is_conflict
    assert not caught.value.may_have_acted


def test_writes_carry_their_time_limit_and_kind():
    async def work(client: KubeClient) -> None:
        await client.create(LEASES, "ns", {"metadata": {"name": "l"}}, timeout_s=3)
        await client.replace(PODS, "ns", "p", pod("p"), part="status")
        await client.patch(POD_GROUPS, "ns", "g", [{"op": "test"}], kind="json", part="status")
        await client.patch(PODS, "ns", "p", {"status": {}}, kind="strategic")
        await client.delete(PODS, "ns", "p", uid="u", grace_s=0)

    _, calls = run(work, (201, {}), (200, {}), (200, {}), (200, {}), (200, {"kind": "Status"}))
    assert [(call.method, call.path) for call in calls] == [
        ("POST", "/apis/coordination.k8s.io/v1/namespaces/ns/leases"),
        ("PUT", "/api/v1/namespaces/ns/pods/p/status"),
        ("PATCH", "/apis/scheduling.k8s.io/v1beta1/namespaces/ns/podgroups/g/status"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p"),
        ("DELETE", "/api/v1/namespaces/ns/pods/p"),
    ]
    assert [call.query["timeout"] for call in calls] == ["3s", "20s", "20s", "20s", "20s"]
    assert calls[2].headers["content-type"] == "application/json-patch+json"
    assert calls[3].headers["content-type"] == "application/strategic-merge-patch+json"
    assert calls[4].data["preconditions"] == {"uid": "u"}
    assert calls[4].data["gracePeriodSeconds"] == 0


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_no_name_can_make_a_delete_of_a_whole_collection(name):
    with pytest.raises(InputError, match="not a valid object name"):
        run(lambda client: client.delete(PODS, "ns", name))


def test_a_name_with_slashes_and_marks_stays_one_name():
    _, (call,) = run(lambda client: client.get(PODS, "ns", "../nodes?x=1"), (200, pod("x")))
    assert call.path == "/api/v1/namespaces/ns/pods/..%2Fnodes%3Fx%3D1"
    assert call.query == {}


def test_a_get_reads_the_fields_that_we_know():
    lease, _ = run(
        lambda client: client.get(LEASES, "ns", "l"),
        (200, {"metadata": {"name": "l", "managedFields": [{"x": 1}]}, "spec": {"holderIdentity": "me"}}),
    )
    assert lease.spec.holder_identity == "me"
    assert lease.spec.renew_time is None


def test_retry_after_comes_from_the_header_or_from_the_status():
    for headers, details in (({"Retry_After": "7"}, {}), ({}, {"details": {"retryAfterSeconds": 7}})):
        with pytest.raises(ApiError) as caught:
            run(lambda client: client.read("/version"), (429, {"reason": "TooManyRequests", **details}, headers))
        assert caught.value.retry_after_s == 7
        assert caught.value.is_worth_retrying


def test_a_proxys_page_becomes_the_message():
    with pytest.raises(ApiError, match="502: <h1> Bad Gateway </h1>"):
        run(lambda client: client.read("/version"), (502, b"<h1>\n Bad  Gateway\n</h1>"))


def test_a_redirect_is_not_followed():
    with pytest.raises(ApiError, match="301"):
        run(lambda client: client.read("/version"), (301, b"", {"Location": "/elsewhere"}))


async def test_calls_share_a_connection_and_say_who_we_are():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.answer(200, {})

    async with client_of(script) as (client, server):
        for _ in range(5):
            await client.read("/version")
        assert server.connections == 1
        assert server.calls[0].headers["user-agent"] == "hostler"
        assert server.calls[0].headers["authorization"] == "Bearer secret-token"
        assert "accept-encoding" not in server.calls[0].headers


def test_a_body_is_json_whatever_it_is_made_of():
    body, (call,) = run(lambda client: client.post("/apis/x?dryRun=All", {"ä": [1]}), (200, b"raw"))
    assert body == b"raw"
    assert json.loads(call.body) == {"ä": [1]}
    assert call.query == {"dryRun": "All", "timeout": "20s"}
