"""Third-party extenders that fail: the pod shows which one and how, and a bind still has one outcome."""

import asyncio
from random import Random

import msgspec
import pytest
from aiohttp import web

from hostler.kube.api.client import KubeClient
from hostler.kube.configuration import default_settings
from hostler.kube.extender.http_calls import HttpCalls
from hostler.kube.scheduler.process import Scheduler
from hostler.kube.service.questions import Questions
from hostler.kube.settings import ExtenderSettings
from hostler.runtime.engine_thread import InlineExecutor
from hostler.runtime.transport import TransportError
from tests.kube.faults.simulated_cluster import SimulatedCluster, play
from tests.kube.service.service_in_process import node, pod, server_with
from tests.wait import until

ADDRESS = "http://extender"


def _extender(**more) -> ExtenderSettings:
    return ExtenderSettings(url_prefix=ADDRESS, is_node_cache_capable=True, **more)


class Calls:
    """A scripted extender; by default it allows all nodes and binds nothing."""

    def __init__(self, act):
        self.act = act

    async def __call__(self, extender, verb, body):
        return await self.act(verb, msgspec.json.decode(body))


async def _silence(verb, args):
    await asyncio.sleep(4.0)
    raise TransportError(f"{verb} did not answer within 4 s", may_have_acted=True)


async def _bug(verb, args):
    raise ValueError("a bug")


async def _nonsense(verb, args):
    return b"<html>no JSON</html>"


async def _error(verb, args):
    return msgspec.json.encode({"Error": "the GPU table is locked"})


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (_silence, "filter did not answer within 4 s"),
        (_bug, "a bug"),
        (_nonsense, "not a valid message"),
        (_error, "the GPU table is locked"),
    ],
    ids=["silence", "a bug", "no JSON", "an error"],
)
def test_a_pod_learns_which_extender_failed_and_how(act, words):
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1")
        actor = await cluster.lead()
        cluster.pod("web")
        await cluster.until(lambda: cluster.why("web"))
        assert f"extender {ADDRESS}: " in cluster.why("web")
        assert words in cluster.why("web")
        await cluster.until(lambda: "FailedScheduling" in cluster.events("web"))
        assert cluster.why("web") in _notes(cluster, "web")
        assert words in actor.scheduler.core.engine.decision(cluster.uid("web")).note

    play(story, extenders=(_extender(filter_verb="filter"),), calls=Calls(act))


def test_pod_rejected_by_extender_reports_what_the_extender_says():
    async def refuse(verb, args):
        names = args["NodeNames"]
        return msgspec.json.encode({"NodeNames": [], "FailedNodes": dict.fromkeys(names, "no GPU left")})

    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("large")
        cluster.node("small", cpu=1)
        await cluster.lead()
        cluster.pod("web", cpu=2)
        await cluster.until(lambda: cluster.why("web"))
        assert cluster.why("web").startswith("0/2 nodes are available: 1 Insufficient cpu, 1 refused by: extenders.")
        assert "large: no GPU left" in cluster.why("web")
        await cluster.until(lambda: cluster.why("web") in _notes(cluster, "web"))

    play(story, extenders=(_extender(filter_verb="filter"),), calls=Calls(refuse))


def test_an_extender_that_recovers_places_the_pod():
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1")
        await cluster.lead()
        cluster.pod("web")
        await cluster.until(lambda: cluster.why("web"))
        calls.act = allow
        await cluster.until(lambda: cluster.where("web") == "n1")

    async def allow(verb, args):
        return msgspec.json.encode({"NodeNames": args["NodeNames"]})

    calls = Calls(_error)
    play(story, extenders=(_extender(filter_verb="filter"),), calls=calls)


class Judge:
    """A filter that rejects some pods on some nodes, and remembers what it was asked."""

    def __init__(self, *rejected: tuple[str, str]) -> None:
        self.rejected = set(rejected)
        self.asked: dict[str, list[str]] = {}

    async def __call__(self, verb, args):
        name, nodes = args["Pod"]["metadata"]["name"], args["NodeNames"]
        self.asked[name] = nodes
        failed = {node: "it says no" for node in nodes if (name, node) in self.rejected}
        return msgspec.json.encode({"NodeNames": [n for n in nodes if n not in failed], "FailedNodes": failed})


def test_extender_filters_the_members_of_a_gang():
    judge = Judge(("team-0", "n1"), ("team-1", "n2"))

    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1")
        cluster.node("n2")
        await cluster.lead()
        cluster.group("team", least=2)
        for number in range(2):
            cluster.pod(f"team-{number}", group="team")
        await cluster.until(lambda: cluster.placed("team-0", "team-1") == 2)
        assert (cluster.where("team-0"), cluster.where("team-1")) == ("n2", "n1")
        assert sorted(judge.asked) == ["team-0", "team-1"]

    play(story, extenders=(_extender(filter_verb="filter"),), calls=Calls(judge))


def test_extender_gets_few_calls_at_once_for_a_large_gang():
    now, most = set(), 0

    async def slow(verb, args):
        nonlocal most
        now.add(args["Pod"]["metadata"]["name"])
        most = max(most, len(now))
        await asyncio.sleep(0.01)
        now.discard(args["Pod"]["metadata"]["name"])
        return msgspec.json.encode({"NodeNames": args["NodeNames"]})

    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1", cpu=200)
        await cluster.lead()
        names = [f"team-{number}" for number in range(100)]
        cluster.group("team", least=100)
        for name in names:
            cluster.pod(name, cpu=1, group="team")
        await cluster.until(lambda: cluster.placed(*names) == 100)
        assert 1 < most <= 32

    play(story, extenders=(_extender(filter_verb="filter"),), calls=Calls(slow))


def test_gang_waits_while_the_extender_rejects_one_member_everywhere():
    judge = Judge(("team-1", "n1"), ("team-1", "n2"))

    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1")
        cluster.node("n2")
        await cluster.lead()
        cluster.group("team", least=2)
        for number in range(2):
            cluster.pod(f"team-{number}", group="team")
        await cluster.until(lambda: "refused by: extenders" in cluster.why("team-1"))
        assert cluster.placed("team-0", "team-1") == 0
        judge.rejected.clear()
        await cluster.until(lambda: cluster.placed("team-0", "team-1") == 2, within_s=600)

    play(story, extenders=(_extender(filter_verb="filter"),), calls=Calls(judge))


def test_extender_filters_the_node_of_a_nominated_pod():
    judge = Judge(("high", "n1"))

    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1", cpu=2)
        cluster.node("n2", cpu=2)
        cluster.pod("low-1", cpu=2, on="n1", grace_s=5)
        cluster.pod("low-2", cpu=2, on="n2", grace_s=5, priority=1)
        await cluster.lead()
        await cluster.until(lambda: cluster.runs("low-1") and cluster.runs("low-2"))
        cluster.pod("high", cpu=2, priority=10)
        await cluster.until(lambda: cluster.where("high"), within_s=600)
        assert cluster.where("high") == "n2"
        assert "n2" in judge.asked["high"]
        assert (cluster.evicted("low-1"), cluster.evicted("low-2")) == (1, 1)

    play(story, extenders=(_extender(filter_verb="filter"),), calls=Calls(judge))


def _notes(cluster: SimulatedCluster, name: str) -> list[str]:
    return [event["note"] for event in cluster.server.objects("events") if event["regarding"]["name"] == name]


# -- binds by an extender ------------------------------------------------------------------------------------------


def test_bind_done_but_reported_failed_by_extender_is_not_tried_elsewhere():
    async def story(cluster: SimulatedCluster) -> None:
        async def bind_and_fail(verb, args):
            bound.append(args["Node"])
            cluster.bind_as_other(args["PodName"], args["Node"])
            raise TransportError("bind answers 500: oh", may_have_acted=True)

        calls.act = bind_and_fail
        cluster.node("n1")
        cluster.node("n2")
        await cluster.lead()
        cluster.pod("web")
        await cluster.until(lambda: cluster.where("web"))
        await cluster.sleep(30)
        assert bound == [cluster.where("web")]

    bound: list[str] = []
    calls = Calls(_bug)
    play(story, extenders=(_extender(bind_verb="bind", timeout_s=4.0),), calls=calls)


def test_a_bind_by_an_extender_is_over_when_binds_must_be():
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1")
        await cluster.lead()
        cluster.pod("web")
        await cluster.until(lambda: ended)
        assert ended == ["cancelled"]
        await cluster.until(lambda: "within 4 s" in cluster.why("web"))

    async def dawdle(verb, args):
        try:
            await asyncio.sleep(600)
        finally:
            ended.append("cancelled")

    ended: list[str] = []
    play(story, extenders=(_extender(bind_verb="bind", timeout_s=3.0),), calls=Calls(dawdle), is_clean=False)


def test_extender_that_cannot_bind_does_not_slow_down_other_binds():
    async def story(cluster: SimulatedCluster) -> None:
        cluster.node("n1", cpu=64)
        actor = await cluster.lead()
        for number in range(20):
            _put_managed(cluster, f"special-{number}")
        await cluster.until(lambda: cluster.why("special-0"))
        assert f"extender {ADDRESS}: bind cannot be reached" in cluster.why("special-0")
        assert not actor.scheduler.breaker.is_open
        cluster.pod("plain")
        await cluster.until(lambda: cluster.where("plain"))

    async def away(verb, args):
        raise TransportError("bind cannot be reached: refused", may_have_acted=False)

    extender = _extender(bind_verb="bind", timeout_s=4.0, managed_resources=("example.com/chip",))
    play(story, extenders=(extender,), calls=Calls(away))


def _put_managed(cluster: SimulatedCluster, name: str) -> None:
    limits = {"resources": {"requests": {"cpu": "1"}, "limits": {"example.com/chip": "0"}}}
    cluster.pod(name, containers=[{"name": "c", "image": "i", **limits}])


# -- over HTTP -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: web.Response(status=500, text="out of order"), "filter answers 500: out of order"),
        (lambda: web.Response(text="{"), "not a valid message"),
        (None, "filter cannot be reached"),
    ],
    ids=["500", "no JSON", "refused"],
)
async def test_explain_names_an_extender_that_fails(answer, words):
    async def handle(request):
        return answer()

    app = web.Application()
    app.router.add_post("/filter", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    if answer is None:
        await site.stop()
    address = f"http://127.0.0.1:{port}"
    try:
        found, why = await _explained(ExtenderSettings(url_prefix=address, filter_verb="filter"))
    finally:
        await runner.cleanup()
    for text in (found["message"], found["decision"]["note"], why):
        assert f"extender {address}: " in text
        assert words in text


async def _explained(extender: ExtenderSettings):
    """Return the explanation of a pod whose extender fails, and the message of its condition."""
    server = server_with(node("n1"), pod("web"))
    settings = msgspec.structs.replace(default_settings(), extenders=(extender,))
    client, calls, executor, stop = KubeClient(server.transport()), HttpCalls(), InlineExecutor(), asyncio.Event()
    scheduler = Scheduler(
        client, settings, clock=server.clock, executor=executor, identity="me", random=Random(1), calls=calls
    )
    running = asyncio.ensure_future(scheduler.run(stop))

    def why() -> str:
        conditions = server.get("pods", "web")["status"].get("conditions", ())
        return next((one["message"] for one in conditions if one["type"] == "PodScheduled"), "")

    try:
        await until(why)
        questions = Questions(scheduler, executor, server.clock)
        return await questions.explain(questions.pod("default", "web")), why()
    finally:
        stop.set()
        await running
        await calls.close()
        await client.close()
