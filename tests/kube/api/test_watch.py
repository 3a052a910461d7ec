"""Watches over a real socket: cut anywhere, ended anyhow."""

from __future__ import annotations

import asyncio

import pytest

from hostler.kube.api.client import UndecodableObject
from hostler.kube.api.failures import ApiError
from hostler.kube.api.resources import PODS
from hostler.runtime.transport import TransportError
from tests.kube.api.scripted_server import ReceivedCall, Wire, client_of, line, pod
from tests.wait import until


def watch(stream, **arguments):
    """Watch a stream that a coroutine writes; return all changes and the calls."""

    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.start_stream()
        await stream(wire)

    async def work():
        changes = []
        async with client_of(script) as (client, server):
            async for batch in client.watch(PODS, "5", **arguments):
                changes += batch
            return changes, server.calls

    return asyncio.run(work())


def test_a_watch_asks_for_bookmarks_from_a_version_on():
    _, (call,) = watch(Wire.end_stream, namespace="ns", timeout_s=250.7)
    assert call.path == "/api/v1/namespaces/ns/pods"
    assert call.query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "250",
    }


def test_all_kinds_of_events_arrive_in_order():
    async def stream(wire: Wire) -> None:
        await wire.event("ADDED", pod("a", 6))
        await wire.event("MODIFIED", pod("a", 7))
        await wire.event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "8"}})
        await wire.event("DELETED", pod("a", 9))
        await wire.end_stream()

    changes, _ = watch(stream)
    assert [(change.kind, change.version) for change in changes] == [
        ("added", "6"),
        ("modified", "7"),
        ("bookmark", "8"),
        ("deleted", "9"),
    ]
    assert changes[2].item is None
    assert changes[3].item.metadata.name == "a"


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_lines_are_whole_wherever_the_stream_is_cut(size):
    text = b"".join(line("ADDED", pod(f"pod-{number}", number + 6)) for number in range(20))

    async def stream(wire: Wire) -> None:
        for start in range(0, len(text), size):
            await wire.piece(text[start : start + size])
        await wire.end_stream()

    changes, _ = watch(stream)
    assert [change.version for change in changes] == [str(number + 6) for number in range(20)]


def test_a_torn_last_line_is_an_error_after_all_whole_ones():
    async def stream(wire: Wire) -> None:
        await wire.piece(line("ADDED", pod("a", 6)) + b'{"type":"ADD')
        await wire.end_stream()

    with pytest.raises(TransportError, match="in the middle of a line"):
        watch(stream)


def test_an_error_event_raises_what_it_says():
    async def stream(wire: Wire) -> None:
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
        await wire.event("ERROR", status)
        await wire.end_stream()

    with pytest.raises(ApiError, match="too old resource version") as caught:
        watch(stream)
    assert caught.value.is_expired


def test_a_line_that_is_no_json_is_a_broken_stream():
    with pytest.raises(TransportError, match="a line of the watch on pods"):
        watch(lambda wire: wire.piece(b"what?\n"))


def test_an_event_of_a_kind_that_nobody_knows_is_an_error():
    with pytest.raises(ApiError, match="STRANGE"):
        watch(lambda wire: wire.event("STRANGE", pod("a")))


def test_a_silent_watch_is_given_up():
    async def stream(wire: Wire) -> None:
        await wire.event("ADDED", pod("a", 6))
        await asyncio.sleep(60)

    with pytest.raises(TransportError, match=r"the watch on pods was silent for 0\.2 s"):
        watch(stream, silence_s=0.2)


def test_a_reset_in_the_middle_is_an_error():
    async def stream(wire: Wire) -> None:
        await wire.event("ADDED", pod("a", 6))
        wire.reset()

    with pytest.raises(TransportError):
        watch(stream)


def test_huge_object_arrives_and_an_oversized_one_ends_the_watch():
    large = pod("large", 6)
    large["metadata"]["annotations"] = {"a": "x" * 5_000_000}

    async def send(wire: Wire, text: bytes) -> None:
        for start in range(0, len(text), 100_000):
            await wire.piece(text[start : start + 100_000])
        await wire.end_stream()

    changes, _ = watch(lambda wire: send(wire, line("ADDED", large)))
    assert len(changes[0].item.metadata.annotations["a"]) == 5_000_000
    with pytest.raises(TransportError, match="more than 32 MB"):
        watch(lambda wire: send(wire, b"x" * (33 * 2**20)))


def test_an_object_that_does_not_decode_is_reported_as_broken():
    poison = pod("poison", 6, tolerations="all")

    async def stream(wire: Wire) -> None:
        await wire.event("ADDED", poison)
        await wire.event("ADDED", pod("good", 7))
        await wire.end_stream()

    (broken, good), _ = watch(stream)
    assert isinstance(broken.item, UndecodableObject)
    assert (broken.item.name, broken.version) == ("poison", "6")
    assert good.item.metadata.name == "good"


async def test_leaving_a_watch_ends_its_connection():
    ended = []

    async def script(call: ReceivedCall, wire: Wire) -> None:
        await wire.start_stream()
        await wire.event("ADDED", pod("a", 6))
        try:
            while True:
                await wire.event("BOOKMARK", pod("", 7))
                await asyncio.sleep(0.01)
        except ConnectionError:
            ended.append(call)

    async with client_of(script) as (client, _server):
        stream = client.watch(PODS, "5")
        await anext(stream)
        await stream.aclose()
        await until(lambda: ended)
