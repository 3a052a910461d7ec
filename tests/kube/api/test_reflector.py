"""A reflector's copy converges to the server's state after any failure, and its updates are complete."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.kube.api.client import KubeClient, UndecodableObject
from hostler.kube.api.decoding import uid_of, version_of
from hostler.kube.api.reflector import ObjectUpdate, Reflector
from hostler.kube.api.resources import POD_GROUPS, PODS
from hostler.runtime.clock import NANOSECONDS, SteadyClock
from hostler.runtime.transport import TransportError
from tests.async_tests import run_with
from tests.kube.api.model_server import ModelAnswer, ModelServer, refusal
from tests.kube.api.scripted_server import ReceivedCall, Wire, client_of, line, page, pod
from tests.kube.api.virtual_time import play_virtually, run_virtually
from tests.random_examples import count_examples


class Follower:
    """Replays updates and checks that each fits to those before."""

    def __init__(self) -> None:
        self.copy: dict = {}
        self.updates: list[ObjectUpdate] = []

    def take(self, resource, updates) -> None:
        assert updates
        for update in updates:
            assert self.copy.get(update.key) is update.old
            assert update.old is not None or update.new is not None
            if update.old is not None and update.new is not None:
                assert uid_of(update.old) == uid_of(update.new)
            if update.new is None:
                del self.copy[update.key]
            else:
                self.copy[update.key] = update.new
        self.updates += updates

    def story(self) -> list[tuple[str, str]]:
        words = {(True, False): "new", (False, False): "changed", (False, True): "gone"}
        return [(words[update.old is None, update.new is None], update.key[1]) for update in self.updates]


@asynccontextmanager
async def run_reflector(server: ModelServer, resource=PODS, **arguments):
    follower = Follower()
    reflector = Reflector(
        KubeClient(server), resource, follower.take, clock=SteadyClock(), random=random.Random(1), **arguments
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector, follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()


def content_of(reflector: Reflector) -> dict:
    return {key: (uid_of(item), version_of(item)) for key, item in reflector.store.items()}


@run_with(play_virtually)
async def test_the_first_list_is_reported_and_then_every_event():
    server = ModelServer()
    server.put("a")
    server.put("b")
    async with run_reflector(server) as (reflector, follower):
        await reflector.synced.wait()
        assert follower.story() == [("new", "a"), ("new", "b")]
        server.put("a")
        server.remove("b")
        server.put("c")
        await asyncio.sleep(1)
        assert follower.story()[2:] == [("changed", "a"), ("gone", "b"), ("new", "c")]
        assert content_of(reflector) == server.content()
        assert server.calls == ["list", "watch"]
        assert reflector.version == str(server.version)


@run_with(play_virtually)
async def test_an_empty_collection_is_synced_and_tells_nothing():
    async with run_reflector(ModelServer()) as (reflector, follower):
        await reflector.synced.wait()
        assert follower.updates == []


@run_with(play_virtually)
async def test_a_watch_that_ends_is_taken_up_from_the_last_bookmark():
    server = ModelServer()
    async with run_reflector(server, timeout_s=100) as (reflector, _follower):
        await reflector.synced.wait()
        server.version = 500  # other collections change too
        await asyncio.sleep(70)
        assert reflector.version == "500"
        server.forget()
        await asyncio.sleep(1000)
        assert set(server.calls[1:]) == {"watch"}
        assert reflector.relists == 0
        assert reflector.failures == 0


@run_with(play_virtually)
async def test_expired_version_causes_relist_that_finds_missed_deletions():
    server = ModelServer()
    for name in ("stays", "goes", "recreated"):
        server.put(name)
    async with run_reflector(server, timeout_s=50) as (reflector, follower):
        await reflector.synced.wait()
        before = len(follower.updates)
        server.answers = [TransportError("down", may_have_acted=False)] * 3
        server._news = asyncio.Event()  # the open watch hears nothing more
        server.remove("goes")
        server.remove("recreated")
        server.put("recreated")
        server.forget()
        server.log.clear()
        await asyncio.sleep(300)
        assert content_of(reflector) == server.content()
        told = follower.story()[before:]
        assert sorted(told) == [("gone", "goes"), ("gone", "recreated"), ("new", "recreated")]
        assert told.index(("gone", "recreated")) < told.index(("new", "recreated"))
        assert reflector.relists == 1


@pytest.mark.parametrize("form", ["answer", "event"])
@run_with(play_virtually)
async def test_both_forms_of_expiry_lead_to_a_list(form):
    server = ModelServer()
    server.put("a")
    if form == "answer":
        expired = refusal(410, "Expired")
    else:
        expired = ModelAnswer(200, stream=one_batch([line("ERROR", {"code": 410, "reason": "Expired"}).strip()]))
    first = ModelAnswer(200, b'{"metadata":{"resourceVersion":"3"},"items":[]}')
    server.answers = [first, expired]
    async with run_reflector(server) as (reflector, follower):
        await asyncio.sleep(10)
        assert server.calls[:3] == ["list", "watch", "list"]
        assert follower.story() == [("new", "a")]
        assert reflector.last_error == ""


async def one_batch(lines):
    yield lines


def events(*pairs) -> ModelAnswer:
    return ModelAnswer(200, stream=one_batch([line(kind, item).strip() for kind, item in pairs]))


def updates_from(*answers) -> tuple[list, Reflector]:
    """Give these responses to a reflector; return its updates."""

    async def main():
        server = ModelServer()
        server.answers = [*answers, *[TransportError("down", may_have_acted=False)] * 99]
        async with run_reflector(server) as (reflector, follower):
            await asyncio.sleep(5)
            return follower.story(), reflector

    return run_virtually(main())


def listing(*items, version=5) -> ModelAnswer:
    return ModelAnswer(200, json.dumps(page(list(items), version)).encode())


def test_what_was_told_before_or_is_older_is_ignored():
    story, _ = updates_from(
        listing(pod("a", 5)),
        events(("ADDED", pod("a", 5)), ("MODIFIED", pod("a", 7)), ("MODIFIED", pod("a", 6)), ("MODIFIED", pod("a", 7))),
    )
    assert story == [("new", "a"), ("changed", "a")]


def test_versions_are_compared_as_numbers():
    story, _ = updates_from(listing(pod("a", 9)), events(("MODIFIED", pod("a", 10))))
    assert story == [("new", "a"), ("changed", "a")]


def test_another_object_under_the_same_name_is_a_deletion_and_a_new_one():
    story, reflector = updates_from(listing(pod("a", 5)), events(("ADDED", pod("a", 7, uid="other"))))
    assert story == [("new", "a"), ("gone", "a"), ("new", "a")]
    assert uid_of(reflector.store["default", "a"]) == "other"


def test_a_late_event_about_a_deleted_object_does_not_bring_it_back():
    story, reflector = updates_from(
        listing(pod("a", 5)), events(("DELETED", pod("a", 7)), ("MODIFIED", pod("a", 6)), ("DELETED", pod("a", 7)))
    )
    assert story == [("new", "a"), ("gone", "a")]
    assert reflector.store == {}


def test_an_old_event_about_an_object_that_was_never_seen_is_ignored():
    story, _ = updates_from(listing(version=20), events(("ADDED", pod("gone-long-ago", 11)), ("ADDED", pod("new", 21))))
    assert story == [("new", "new")]


def test_the_deletion_of_an_earlier_object_leaves_the_later_one():
    story, _ = updates_from(listing(pod("a", 5)), events(("DELETED", pod("a", 4, uid="earlier"))))
    assert story == [("new", "a")]


def test_a_poison_object_is_kept_as_broken_and_replaced_when_it_is_mended():
    story, reflector = updates_from(
        listing(pod("a", 5, containers=7)), events(("MODIFIED", pod("a", 6)), ("MODIFIED", pod("a", 7, volumes=1)))
    )
    assert story == [("new", "a"), ("changed", "a"), ("changed", "a")]
    assert isinstance(reflector.store["default", "a"], UndecodableObject)


@run_with(play_virtually)
async def test_an_absent_api_that_may_be_absent_is_empty_until_it_appears():
    server = ModelServer()
    server.put("group")
    server.answers = [refusal(404, "NotFound")] * 3
    async with run_reflector(server, POD_GROUPS, is_optional=True) as (reflector, follower):
        await reflector.synced.wait()
        assert reflector.is_absent
        await asyncio.sleep(50)
        assert len(server.calls) == 2
        await asyncio.sleep(60)
        assert not reflector.is_absent
        assert follower.story() == [("new", "group")]


def test_watch_that_is_not_found_loses_no_objects():
    story, reflector = updates_from(listing(pod("a", 5)), events(("MODIFIED", pod("a", 6))), refusal(404, "NotFound"))
    assert story == [("new", "a"), ("changed", "a")]
    assert not reflector.is_absent


@run_with(play_virtually)
async def test_an_api_that_vanishes_takes_its_objects_with_it():
    server = ModelServer()
    server.answers = [listing(pod("a", 5)), *[refusal(404, "NotFound")] * 5]
    async with run_reflector(server, is_optional=True) as (reflector, follower):
        await asyncio.sleep(20)
        assert follower.story() == [("new", "a"), ("gone", "a")]
        assert reflector.is_absent


@run_with(play_virtually)
async def test_objects_that_come_back_with_their_api_are_followed_as_before():
    server = ModelServer()
    server.put("a")
    async with run_reflector(server, is_optional=True, timeout_s=50) as (reflector, follower):
        await reflector.synced.wait()
        server.answers = [refusal(404, "NotFound")]
        await asyncio.sleep(200)
        assert follower.story() == [("new", "a"), ("gone", "a"), ("new", "a")]
        server.put("a")
        await asyncio.sleep(1)
        assert follower.story()[-1] == ("changed", "a")


@pytest.mark.parametrize(("answers", "verb"), [([], "list"), ([listing()], "watch")])
@pytest.mark.parametrize("status", [401, 403])
@run_with(play_virtually)
async def test_missing_permission_names_verb_and_recovers_when_granted(answers, verb, status):
    server = ModelServer()
    server.put("a")
    server.answers = [*answers, *[refusal(status, "Forbidden")] * 3]
    async with run_reflector(server) as (reflector, follower):
        await asyncio.sleep(1)
        assert f"not allowed to {verb} pods (v1)" in reflector.last_error
        assert reflector.failures >= 1
        await asyncio.sleep(60)
        assert reflector.last_error == ""
        server.put("a")
        await asyncio.sleep(1)
        assert follower.story()[-1][1] == "a"


def test_a_stalled_watch_is_noticed_and_taken_up_again():
    async def stall():
        await asyncio.sleep(10_000)
        yield []

    async def main() -> None:
        server = ModelServer()
        server.answers = [listing(version=10), ModelAnswer(200, stream=stall())]
        async with run_reflector(server) as (reflector, follower):
            await asyncio.sleep(1)
            heard = reflector.heard_at
            server.put("a")
            await asyncio.sleep(50)
            assert (follower.story(), reflector.heard_at) == ([], heard)
            await asyncio.sleep(50)
            assert follower.story() == [("new", "a")]
            assert reflector.heard_at > heard

    run_virtually(main())


async def silence(*lines: bytes):
    """Stream some lines, and then nothing for longer than any time limit."""
    if lines:
        yield list(lines)
    await asyncio.sleep(10_000)
    yield []


@run_with(play_virtually)
async def test_quiet_collection_is_no_failure_and_its_view_is_not_old():
    server = ModelServer()
    server.put("a")
    server.answers = [listing(server.objects["a"], version=11)]
    clock = SteadyClock()
    # As real servers do it: no bookmark that is not newer than where the watch began.
    server.answers += [ModelAnswer(200, stream=silence()), ModelAnswer(200, stream=silence())]
    async with run_reflector(server) as (reflector, follower):
        for _ in range(30):
            await asyncio.sleep(10)
            assert (reflector.failures, reflector.last_error) == (0, "")
            assert clock.now() - reflector.heard_at < 100 * NANOSECONDS
        assert server.calls[:4] == ["list", "watch", "watch", "list"]
        assert follower.story() == [("new", "a")]


@run_with(play_virtually)
async def test_watch_that_falls_silent_counts_until_another_is_open():
    server = ModelServer()
    stream = silence(line("BOOKMARK", pod("", 12)).strip())
    server.answers = [
        listing(version=10),
        ModelAnswer(200, stream=stream),
        TransportError("down", may_have_acted=False),
    ]
    async with run_reflector(server) as (reflector, _follower):
        await asyncio.sleep(80)
        assert (reflector.failures, reflector.last_error) == (0, "")
        await asyncio.sleep(11.5)
        assert reflector.failures >= 1
        await asyncio.sleep(10)
        assert (reflector.failures, reflector.last_error) == (2, "")


@pytest.mark.parametrize(
    "answer",
    [
        lambda: TransportError("down", may_have_acted=False),
        lambda: refusal(500, "InternalError"),
        lambda: refusal(403, "Forbidden"),
        lambda: refusal(410, "Expired"),
        lambda: ModelAnswer(200, b"no list", stream=one_batch([b"no line"])),
        lambda: ModelAnswer(200, listing()._body, stream=empty()),
        lambda: ModelAnswer(200, listing()._body, stream=one_batch([line("ERROR", {"code": 410}).strip()])),
        lambda: ModelAnswer(200, listing()._body, stream=one_batch([line("BOOKMARK", pod("", 5)).strip()])),
    ],
    ids=["down", "500", "403", "410", "garbage", "ends-at-once", "always-expired", "bookmark-and-end"],
)
@run_with(play_virtually)
async def test_nothing_spins_however_the_server_fails(answer):
    server = ModelServer()
    server.answers = [answer() for _ in range(2000)]
    async with run_reflector(server):
        await asyncio.sleep(3600)
    assert 100 < len(server.calls) < 600


async def empty():
    nothing: list[list[bytes]] = []
    for lines in nothing:
        yield lines


@run_with(play_virtually)
async def test_retry_after_is_honoured():
    server = ModelServer()
    server.answers = [refusal(429, "TooManyRequests", **{"retry-after": "45"})]
    async with run_reflector(server) as (reflector, _follower):
        await asyncio.sleep(44)
        assert server.calls == ["list"]
        await asyncio.sleep(10)
        assert reflector.synced.is_set()


@run_with(play_virtually)
async def test_a_server_that_was_set_back_is_listed_again():
    server = ModelServer()
    server.put("a")
    too_new = ModelAnswer(504, b'{"reason":"Timeout","message":"Too large resource version: 900, current: 11"}')
    server.answers = [listing(pod("a", 900), version=900), too_new]
    async with run_reflector(server) as (reflector, _follower):
        await asyncio.sleep(30)
        assert content_of(reflector) == server.content()


@pytest.mark.parametrize("silence_s", [3600, 80], ids=["stalls", "ends"])
def test_a_server_that_was_set_back_and_says_nothing_is_listed_again(silence_s):
    async def say_nothing():
        await asyncio.sleep(silence_s)
        for lines in list[list[bytes]]():
            yield lines

    async def main() -> None:
        server = ModelServer()
        server.put("a")
        server.answers = [listing(pod("a", 900), version=900)]
        server.answers += [ModelAnswer(200, stream=say_nothing()) for _ in range(2)]
        async with run_reflector(server) as (reflector, _follower):
            await asyncio.sleep(300)
            assert server.calls[:4] == ["list", "watch", "watch", "list"]
            assert content_of(reflector) == server.content()

    run_virtually(main())


@run_with(play_virtually)
async def test_a_quiet_collection_with_bookmarks_is_not_listed_again():
    server = ModelServer()
    async with run_reflector(server):
        await asyncio.sleep(10_000)
    assert server.calls.count("list") == 1


@run_with(play_virtually)
async def test_a_reflector_runs_once_at_a_time():
    async with run_reflector(ModelServer()) as (reflector, _follower):
        await reflector.synced.wait()
        with pytest.raises(RuntimeError, match="runs once"):
            await reflector.run()


def test_over_a_real_socket_a_torn_watch_is_resumed():
    async def script(call: ReceivedCall, wire: Wire) -> None:
        if "watch" not in call.query:
            await wire.answer(200, page([pod("a", 5)], 5))
            return
        await wire.start_stream()
        if call.query["resourceVersion"] == "5":
            await wire.piece(line("MODIFIED", pod("a", 6)) + b'{"type":"DEL')
            wire.reset()
        else:
            await wire.event("DELETED", pod("a", 7))
            await asyncio.sleep(60)

    async def main() -> list[str]:
        async with client_of(script) as (client, server):
            follower = Follower()
            reflector = Reflector(client, PODS, follower.take, clock=SteadyClock(), random=random.Random(1))
            task = asyncio.create_task(reflector.run())
            while reflector.version != "7":
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert follower.story() == [("new", "a"), ("changed", "a"), ("gone", "a")]
            return [call.query.get("resourceVersion", "") for call in server.calls]

    assert asyncio.run(main()) == ["", "5", "6"]


@settings(max_examples=count_examples(150), deadline=None)
@given(seed=st.integers(0, 2**32), faults=st.sampled_from([0.0, 0.1, 0.3, 0.6]))
def test_copy_and_replayed_updates_equal_the_server_after_faults(seed, faults):
    async def main() -> None:
        server = ModelServer(seed)
        server.faults = faults
        chance = random.Random(seed + 1)
        for _ in range(chance.randrange(6)):
            server.put(f"pod-{chance.randrange(6)}")
        async with run_reflector(server, timeout_s=40) as (reflector, follower):
            for _ in range(60):
                await asyncio.sleep(chance.expovariate(0.3))
                for _ in range(chance.randrange(4)):
                    name = f"pod-{chance.randrange(6)}"
                    (server.put if chance.random() < 0.6 else server.remove)(name)
                if chance.random() < 0.1:
                    server.forget()
            server.faults = 0.0
            await asyncio.sleep(400)
            assert content_of(reflector) == server.content()
            assert follower.copy == reflector.store
            assert server.most_watches == 1

    run_virtually(main())
