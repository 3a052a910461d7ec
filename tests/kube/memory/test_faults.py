import asyncio
from random import Random

import msgspec
import pytest

from hostler.kube.memory import ApiServer
from hostler.kube.memory.virtual_time import run_simulation
from hostler.runtime.transport import TransportError
from tests.kube.memory.api_requests import PODS, bind, events, node, pod, send, watch
from tests.kube.memory.faults import FaultRates, FaultyTransport


def _with(rates, main, *, seed=1, by_kind=None):
    """Run a coroutine function over a server, a faulty transport and the uid of an unbound pod."""

    async def run():
        server = ApiServer()
        server.put(node("n1"))
        uid = server.put(pod("a"))["metadata"]["uid"]
        transport = FaultyTransport(server.transport(), rates, Random(seed), by_kind=by_kind)
        return await main(server, transport, uid)

    return run_simulation(run, seed)


def _node_of(server):
    return (server.get("pods", "a") or {})["spec"].get("nodeName")


@pytest.mark.parametrize(
    ("rates", "knows", "is_bound"),
    [
        (FaultRates(refused=1), True, False),
        (FaultRates(lost=1), False, False),
        (FaultRates(unanswered=1), False, True),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_no_answer_says_whether_the_server_may_have_acted(rates, knows, is_bound, seed):
    async def main(server, transport, uid):
        with pytest.raises(TransportError) as caught:
            await bind(transport, "a", uid, "n1")
        assert caught.value.may_have_acted is not knows
        assert _node_of(server) == ("n1" if is_bound else None)
        assert server.log[-1].told == (0 if knows else None)

    _with(rates, main, seed=seed)


@pytest.mark.parametrize("seed", range(6))
def test_a_server_error_comes_before_or_after_the_act(seed):
    async def main(server, transport, uid):
        assert await bind(transport, "a", uid, "n1") in (500, 503, 504)
        return _node_of(server)

    assert _with(FaultRates(failed_before=1), main, seed=seed) is None
    assert _with(FaultRates(failed_after=1), main, seed=seed) == "n1"


def test_refusals_without_cause():
    async def main(server, transport, uid):
        return await bind(transport, "a", uid, "n1")

    assert _with(FaultRates(conflicts=1), main) == 409
    assert _with(FaultRates(throttled=1), main) == 429


@pytest.mark.parametrize("seed", range(10))
def test_a_delayed_request_acts_before_its_own_deadline_or_never(seed):
    async def main(server, transport, uid):
        try:
            status = await bind(transport, "a", uid, "n1", timeout_s=2)
        except TransportError:
            status = 0
        await asyncio.sleep(60)
        entry = server.log[-1]
        if entry.committed is not None:
            assert entry.committed < entry.deadline
        assert (entry.committed is not None) == (_node_of(server) == "n1") == (entry.status == 201)
        return status

    assert _with(FaultRates(delayed=1), main, seed=seed) in (0, 201, 504)


def test_a_request_that_arrives_twice_is_refused_the_second_time():
    async def main(server, transport, uid):
        return await bind(transport, "a", uid, "n1"), [entry.status for entry in server.log]

    seen = [_with(FaultRates(doubled=1), main, seed=seed) for seed in range(8)]
    assert all(statuses == [201, 409] for _, statuses in seen)
    assert {told for told, _ in seen} == {201, 409}


def test_rates_can_differ_by_kind_of_request():
    async def main(server, transport, uid):
        assert (await send(transport, "GET", PODS))[0] == 200
        return await bind(transport, "a", uid, "n1")

    assert _with(FaultRates(), main, by_kind={"binding": FaultRates(throttled=1)}) == 429


def test_a_watch_is_cut_in_order_and_never_skips():
    async def main(server, transport, uid):
        version = server.store.version
        seen: list[int] = []
        asyncio.get_running_loop().create_task(_label(server, 40))
        while len(seen) < 40:
            response = await watch(transport, version, "&timeoutSeconds=5")
            if response.status != 200:
                continue
            try:
                async for batch in response.line_batches():
                    for event in (msgspec.json.decode(line) for line in batch):
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] == "MODIFIED":
                            seen.append(int(event["object"]["metadata"]["labels"]["n"]))
            except TransportError:
                continue
        assert seen == list(range(40))
        return transport.played["cut"]

    assert sum(_with(FaultRates(cut=0.4, late=0.3), main, seed=seed) for seed in range(5)) > 5


async def _label(server, count):
    for number in range(count):
        labels = {"n": str(number)}
        server.change("pods", "a", lambda item, to=labels: {**item, "metadata": {**item["metadata"], "labels": to}})
        await asyncio.sleep(0.01 * (number % 3))


def test_a_rewound_watch_tells_events_again():
    async def main(server, transport, uid):
        await _label(server, 5)
        told = await events(await watch(transport, server.store.version, "&timeoutSeconds=1"))
        assert [event["type"] for event in told].count("MODIFIED") >= 1
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in told]
        assert versions == sorted(versions)

    _with(FaultRates(rewound=1), main)


def test_an_expired_watch_says_so_in_both_ways():
    async def main(server, transport, uid):
        response = await watch(transport, server.store.version)
        if response.status != 200:
            return response.status
        return (await events(response))[0]["object"]["code"], "event"

    assert {_with(FaultRates(expired=1), main, seed=seed) for seed in range(8)} == {410, (410, "event")}


def test_a_stalled_watch_tells_nothing_and_bookmarks_can_be_lost():
    async def main(server, transport, uid):
        response = await watch(transport, server.store.version, "&timeoutSeconds=70")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1000):
                await events(response)

    _with(FaultRates(stalled=1), main)

    async def unmarked(server, transport, uid):
        assert await events(await watch(transport, server.store.version, "&timeoutSeconds=200")) == []

    _with(FaultRates(unmarked=1), unmarked)


def test_an_outage_cuts_watches_and_ends():
    async def main(server, transport, uid):
        response = await watch(transport, server.store.version)
        task = asyncio.create_task(events(response))
        await asyncio.sleep(1)
        transport.outage.begin(20)
        with pytest.raises(TransportError):
            await task
        for _ in range(5):
            with pytest.raises(TransportError):
                await send(transport, "GET", PODS, timeout_s=2)
        await asyncio.sleep(20)
        assert (await send(transport, "GET", PODS))[0] == 200

    _with(FaultRates(), main)


@pytest.mark.parametrize(("points", "is_bound"), [(1, False), (2, True)])
def test_a_dead_process_hears_and_does_nothing_more(points, is_bound):
    async def main(server, transport, uid):
        stream = await watch(transport, server.store.version)
        reader = asyncio.create_task(events(stream))
        transport.crash_after(points)
        binder = asyncio.create_task(bind(transport, "a", uid, "n1"))
        await transport.killed.wait()
        await asyncio.sleep(1000)
        assert not binder.done()
        assert not reader.done()
        assert _node_of(server) == ("n1" if is_bound else None)
        count = len(server.log)
        late = asyncio.create_task(send(transport, "GET", PODS))
        await asyncio.sleep(100)
        assert (late.done(), len(server.log)) == (False, count)

    _with(FaultRates(), main)


def test_after_calm_nothing_fails():
    async def main(server, transport, uid):
        transport.calm()
        return await bind(transport, "a", uid, "n1")

    assert _with(FaultRates(lost=1), main) == 201


@pytest.mark.parametrize("match", ["&resourceVersionMatch=NotOlderThan", ""])
def test_stale_list_shows_an_earlier_moment_but_not_before_its_version(match):
    async def main(server, transport, uid):
        await _label(server, 3)
        version = server.store.version
        await _label(server, 5)
        moments = set()
        for _ in range(30):
            status, listed = await send(transport, "GET", f"{PODS}?resourceVersion={version}{match}")
            assert (status, len(listed["items"])) == (200, 1)
            moments.add(int(listed["metadata"]["resourceVersion"]))
        assert moments == set(range(version, server.store.version + 1))
        _, newest = await send(transport, "GET", PODS)
        assert int(newest["metadata"]["resourceVersion"]) == server.store.version

    _with(FaultRates(stale=1), main)
