"""Our scheduler calls third-party extenders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

from hostler.engine import BUILT_IN, Engine
from hostler.errors import UnavailableError
from hostler.kube.extender.extenders import Extenders, with_extenders
from hostler.kube.extender.http_calls import HttpCalls, tls_context
from hostler.kube.settings import ExtenderSettings
from hostler.model import (
    Answered,
    Ask,
    Bind,
    Defer,
    Guest,
    GuestArrived,
    GuestSpec,
    Host,
    HostJoined,
    Policy,
    amounts,
)
from hostler.runtime.transport import TransportError

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"a/b": "1"}}}]}}
ASK = Ask("u", "p", 1, "extenders", 7, ("n1", "n2", "n3"), 0)

Script = Callable[[dict[str, Any]], object]


def _settings(name: str, **more: Any) -> ExtenderSettings:
    verbs = {"filter_verb": "filter", "is_node_cache_capable": True}
    return ExtenderSettings(url_prefix=f"http://{name}", **{**verbs, **more})


def _answer(
    settings: list[ExtenderSettings], scripts: dict[str, Script], pod: dict[str, Any] = POD
) -> tuple[Answered, list[tuple[str, list[str]]]]:
    """Call extenders that answer by scripts; return the answer and the nodes of each call, in order."""
    asked: list[tuple[str, list[str]]] = []

    async def call(extender: ExtenderSettings, verb: str, body: bytes) -> bytes:
        args = json.loads(body)
        names = args["NodeNames"] or [item["metadata"]["name"] for item in args["Nodes"]["items"]]
        key = f"{extender.url_prefix.removeprefix('http://')}/{verb}"
        asked.append((key, names))
        result = scripts[key](args)
        if isinstance(result, Exception):
            raise result
        return result if isinstance(result, bytes) else json.dumps(result).encode()

    def nodes(names: Any) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name}} for name in names]

    return asyncio.run(Extenders(settings, call).answer(ASK, pod, nodes)), asked


def test_each_extender_sees_only_nodes_left_and_rejections_are_kept():
    answer, asked = _answer(
        [_settings("a"), _settings("b", is_node_cache_capable=False)],
        {
            "a/filter": lambda _: {"NodeNames": ["n3", "n1"], "FailedNodes": {"n2": "too old"}},
            "b/filter": lambda _: {
                "Nodes": {"items": [{"metadata": {"name": "n1"}}]},
                "FailedAndUnresolvableNodes": {"n3": "no card"},
            },
        },
    )
    assert asked == [("a/filter", ["n1", "n2", "n3"]), ("b/filter", ["n3", "n1"])]
    assert answer == Answered(uid="u", ask=7, scores=(("n1", 0),), refused=(("n2", "too old"), ("n3", "no card")))


def test_scores_are_weighted_scaled_and_summed_among_those_who_are_left():
    answer, _ = _answer(
        [_settings("a", prioritize_verb="p", weight=2), _settings("b", filter_verb="", prioritize_verb="p")],
        {
            "a/filter": lambda _: {"NodeNames": ["n1", "n2"]},
            "a/p": lambda _: [{"Host": "n1", "Score": 10}, {"Host": "n2", "Score": 99}, {"Host": "x", "Score": 1}],
            "b/p": lambda _: [{"Host": "n1", "Score": 3}, {"Host": "n2", "Score": -1}],
        },
    )
    assert dict(answer.scores) == {"n1": 2 * 100 + 30, "n2": 2 * 100}


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"Error": "no idea"}, "no idea"),
        ({"NodeNames": ["other"]}, "which was not in the request"),
        (b"<html>", "not a valid message"),
        (TransportError("it did not answer", may_have_acted=True), "it did not answer"),
    ],
)
def test_a_filter_that_fails_fails_the_decision_unless_it_may_be_ignored(result, message):
    scripts: dict[str, Script] = {"a/filter": lambda _: result, "b/filter": lambda _: {"NodeNames": ["n2"]}}
    answer, asked = _answer([_settings("a"), _settings("b")], scripts)
    assert message in answer.error
    assert answer.error.startswith("extender http://a: ")
    assert len(asked) == 1
    answer, _ = _answer([_settings("a", is_ignorable=True), _settings("b")], scripts)
    assert (answer.error, answer.scores) == ("", (("n2", 0),))


def test_a_scorer_that_fails_gives_no_scores():
    scripts: dict[str, Script] = {
        "a/p": lambda _: UnavailableError("down"),
        "b/p": lambda _: [{"Host": "n1", "Score": 1}],
    }
    settings = [
        _settings("a", filter_verb="", prioritize_verb="p"),
        _settings("b", filter_verb="", prioritize_verb="p"),
    ]
    answer, _ = _answer(settings, scripts)
    assert (answer.error, dict(answer.scores)) == ("", {"n1": 10, "n2": 0, "n3": 0})


@pytest.mark.parametrize(
    ("managed", "spec", "is_asked"),
    [
        ((), {}, True),
        (("a/b",), {"containers": [{"resources": {"requests": {"a/b": "1"}}}]}, True),
        (("a/b",), {"containers": [{"resources": {"limits": {"a/b": "1"}}}]}, True),
        (("a/b",), {"initContainers": [{"resources": {"requests": {"a/b": "1"}}}]}, True),
        (("a/b",), {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}, False),
        (("a/b",), {"containers": [None, {"resources": 3}]}, False),
        (("a/b",), None, False),
    ],
)
def test_an_extender_is_asked_only_about_pods_that_concern_it(managed, spec, is_asked):
    scripts: dict[str, Script] = {"a/filter": lambda _: {"NodeNames": ["n1"]}}
    answer, asked = _answer([_settings("a", managed_resources=managed)], scripts, {"spec": spec})
    assert bool(asked) is is_asked
    assert len(answer.scores) == (1 if is_asked else 3)


def test_nobody_left_means_nobody_else_is_asked():
    answer, asked = _answer(
        [_settings("a", prioritize_verb="p"), _settings("b")], {"a/filter": lambda _: {"NodeNames": None}}
    )
    assert [key for key, _ in asked] == ["a/filter"]
    assert answer.scores == ()
    assert dict(answer.refused) == dict.fromkeys(ASK.hosts, "rejected by extender http://a")


def test_one_extender_binds_and_an_unknown_outcome_is_reported_as_such():
    sent: list[dict[str, Any]] = []
    answers = [{"Error": ""}, {"Error": "taken"}, b"?"]

    async def call(extender: ExtenderSettings, verb: str, body: bytes) -> bytes:
        sent.append({"verb": verb, **json.loads(body)})
        result = answers.pop(0)
        return result if isinstance(result, bytes) else json.dumps(result).encode()

    extenders = Extenders([_settings("a"), _settings("b", bind_verb="bind", managed_resources=("a/b",))], call)
    binder = extenders.binder_of(POD)
    assert binder is not None
    assert extenders.binder_of({"spec": {}}) is None
    asyncio.run(extenders.bind(binder, "ns", "p", "u", "n1"))
    assert sent == [{"verb": "bind", "PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n1"}]
    with pytest.raises(UnavailableError, match="did not bind: taken"):
        asyncio.run(extenders.bind(binder, "ns", "p", "u", "n1"))
    with pytest.raises(TransportError) as caught:
        asyncio.run(extenders.bind(binder, "ns", "p", "u", "n1"))
    assert caught.value.may_have_acted


def _engine(policies: tuple[Policy, ...]) -> Engine:
    engine = Engine(policies)
    for name in ("n1", "n2", "n3"):
        engine.apply(HostJoined(host=Host(name=name, capacity=amounts({"cpu": 1000, "guests": 10}))))
    engine.apply(GuestArrived(guest=Guest(name="p", uid="u", spec=GuestSpec(requests=amounts({"cpu": 100})))))
    return engine


def test_the_engine_asks_and_takes_the_answer():
    settings = [_settings("a", prioritize_verb="p", timeout_s=2.0)]
    engine = _engine(with_extenders([BUILT_IN["spread"]], settings))
    (ask,) = engine.step(0)
    assert isinstance(ask, Ask)
    assert (ask.asked, ask.deadline) == ("extenders", (2 + 2 + 5) * 10**9)
    scripts: dict[str, Script] = {
        "a/filter": lambda _: {"NodeNames": ["n2", "n3"]},
        "a/p": lambda _: [{"Host": "n3", "Score": 5}],
    }
    answer, _ = _answer(settings, scripts)
    engine.apply(msgspec.structs.replace(answer, ask=ask.ask))
    (bind,) = engine.step(1)
    assert isinstance(bind, Bind)
    assert bind.host == "n3"


def test_whom_extenders_refuse_everywhere_waits():
    settings = [_settings("a")]
    engine = _engine(with_extenders([BUILT_IN["spread"]], settings))
    (ask,) = engine.step(0)
    assert isinstance(ask, Ask)
    answer, _ = _answer(settings, {"a/filter": lambda _: {"FailedNodes": {"n1": "no card"}}})
    engine.apply(msgspec.structs.replace(answer, ask=ask.ask))
    (hold,) = engine.step(1)
    assert isinstance(hold, Defer)
    assert "no card" in engine.decision("u").note


def test_an_extender_that_only_binds_is_not_waited_for():
    policies = (BUILT_IN["spread"],)
    assert with_extenders(policies, [_settings("a", filter_verb="", bind_verb="b")]) == policies


async def test_calls_go_over_http_and_every_failure_is_typed():
    over = asyncio.Event()

    async def verb(request: web.Request) -> web.Response:
        what = request.match_info["verb"]
        if what == "slow":
            await over.wait()
        if what == "broken":
            return web.Response(status=500, text="oh\nno")
        assert request.content_type == "application/json"
        return web.Response(body=await request.read())

    app = web.Application()
    app.router.add_post("/x/{verb}", verb)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    there = ExtenderSettings(url_prefix=f"http://127.0.0.1:{port}/x/", timeout_s=5.0)
    calls = HttpCalls()
    try:
        big = b"[" + b"1," * 200_000 + b"1]"
        assert await calls(there, "echo", big) == big
        with pytest.raises(UnavailableError, match="broken answers 500: oh no"):
            await calls(there, "broken", b"{}")
        with pytest.raises(TransportError, match="did not answer") as late:
            await calls(msgspec.structs.replace(there, timeout_s=0.05), "slow", b"{}")
        assert late.value.may_have_acted
        over.set()
        await runner.cleanup()
        with pytest.raises(TransportError, match="cannot be reached") as gone:
            await calls(msgspec.structs.replace(there, url_prefix=f"http://127.0.0.1:{port}/y"), "echo", b"{}")
        assert not gone.value.may_have_acted
    finally:
        over.set()
        await calls.close()
        await runner.cleanup()


def test_certificates_that_cannot_be_used_are_told():
    assert tls_context(_settings("a")) is True
    assert tls_context(_settings("a", is_insecure=True)) is False
    with pytest.raises(Exception, match="the certificates of extender http://a cannot be used"):
        tls_context(_settings("a", ca_data="nonsense"))
    with pytest.raises(Exception, match="cannot be used"):
        tls_context(_settings("a", cert_file="/does/not/exist"))
