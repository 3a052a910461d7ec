import asyncio

from hostler.kube.memory import ApiServer
from hostler.kube.memory.virtual_time import run_simulation
from tests.async_tests import run_with
from tests.kube.memory.api_requests import PODS, bind, node, pod, send
from tests.kube.memory.invariants import (
    broken_gangs,
    double_bindings,
    hasty_bindings,
    overcommitted_nodes,
    overcommitting_bindings,
    unguarded_writes,
    violations,
)


def _server(main):
    async def run():
        server = ApiServer()
        for name in ("n1", "n2"):
            server.put(node(name, cpu="2"))
        uid = server.put(pod("a"))["metadata"]["uid"]
        await main(server, server.transport(), uid)
        return server

    return run_simulation(run, 1)


def test_a_plain_binding_breaks_nothing():
    async def main(server, transport, uid):
        assert await bind(transport, "a", uid, "n1") == 201

    assert violations(_server(main), is_quiet=True) == []


def test_a_pod_that_moves_is_found():
    async def main(server, transport, uid):
        await bind(transport, "a", uid, "n1")
        server.change("pods", "a", lambda item: {**item, "spec": {**item["spec"], "nodeName": "n2"}})

    assert "moved from n1 to n2" in double_bindings(_server(main))[0]


def test_a_node_with_too_much_on_it_is_found_also_when_it_is_over():
    async def main(server, transport, uid):
        await bind(transport, "a", uid, "n1")
        other = server.put(pod("b", cpu="1500m"))
        await bind(transport, "b", other["metadata"]["uid"], "n1")

    server = _server(main)
    assert overcommitted_nodes(server) == ["node n1 has 2 cpu, given 2.5"]
    assert overcommitted_nodes(server, ignored=["b"]) == []
    server.delete("pods", "b", grace_s=0)
    assert overcommitted_nodes(server) == []
    assert overcommitting_bindings(server) == ["pod b was bound to node n1, which has too little cpu for it"]


def test_room_that_a_pod_left_may_be_given_again():
    async def main(server, transport, uid):
        await bind(transport, "a", uid, "n1")
        server.delete("pods", "a", grace_s=0)
        other = server.put(pod("b", cpu="2"))
        await bind(transport, "b", other["metadata"]["uid"], "n1")

    assert violations(_server(main), is_quiet=True) == []


@run_with(_server)
async def test_half_a_gang_is_found(server, transport, uid, /):
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    server.put({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec})
    for name in ("g1", "g2"):
        server.put(pod(name, schedulingGroup={"podGroupName": "g"}))
    assert broken_gangs(server) == []
    for name, broken in (("g1", ["group default/g has 1 of at least 2 pods bound"]), ("g2", [])):
        await bind(transport, name, (server.get("pods", name) or {})["metadata"]["uid"], "n1")
        assert broken_gangs(server) == broken


@run_with(_server)
async def test_half_a_gang_on_nodes_that_are_gone_does_not_run(server, transport, uid, /):
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    server.put({"kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec})
    created = server.put(pod("g1", schedulingGroup={"podGroupName": "g"}))
    await bind(transport, "g1", created["metadata"]["uid"], "n1")
    assert broken_gangs(server)
    server.delete("nodes", "n1")
    assert broken_gangs(server) == []


def test_writes_without_a_uid_are_found():
    async def main(server, transport, uid):
        await bind(transport, "a", "", "n1")
        await send(transport, "POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
        await send(transport, "DELETE", f"{PODS}/a", {})
        await send(transport, "DELETE", f"{PODS}/a", {"preconditions": {"uid": uid}})

    assert len(unguarded_writes(_server(main), "hostler")) == 3


def _second_node(*, look_after_s, told=None):
    """Bind to one node with an unknown outcome, wait, look or not, then bind to another."""

    async def main(server, transport, uid):
        await bind(transport, "a", uid, "n1", timeout_s=2)
        first = server.log[-1]
        first.told = told
        if look_after_s is not None:
            await asyncio.sleep(look_after_s)
            await send(transport, "GET", PODS)
        await bind(transport, "a", uid, "n2", timeout_s=2)

    return hasty_bindings(_server(main), "hostler")


def test_a_second_node_before_the_first_is_disproved_is_found():
    assert "while its binding to n1" in _second_node(look_after_s=None)[0]
    assert _second_node(look_after_s=1) != []
    assert _second_node(look_after_s=3) == []
    assert _second_node(look_after_s=None, told=409) == []
    assert _second_node(look_after_s=None, told=0) == []
    assert _second_node(look_after_s=None, told=503) != []


def test_not_found_answer_disproves_a_copy_of_the_binding_too():
    async def main(server, transport, uid):
        await bind(transport, "a", uid, "n1", timeout_s=2)
        server.log[-1].told = None  # a copy that the network made: nobody hears what came of it
        server.delete("pods", "a", grace_s=0)
        await bind(transport, "a", uid, "n1", timeout_s=2)
        await bind(transport, "a", uid, "n2", timeout_s=2)

    assert hasty_bindings(_server(main), "hostler") == []


def _after_a_copy(*, is_made_anew: bool) -> list[str]:
    """A copy of a binding is lost, another one meets a conflict, and a third goes to a second node."""

    async def main(server, transport, uid):
        await bind(transport, "a", uid, "n1", timeout_s=2)
        server.log[-1].told = None  # a copy that the network made: nobody hears what came of it
        if is_made_anew:
            server.delete("pods", "a", grace_s=0)
            server.put(pod("a"))
            await bind(transport, "b", server.put(pod("b"))["metadata"]["uid"], "n2", timeout_s=2)
        assert await bind(transport, "a", uid, "n1", timeout_s=2) == 409
        await bind(transport, "a", uid, "n2", timeout_s=2)

    return hasty_bindings(_server(main), "hostler")


def test_uid_conflict_answer_disproves_a_copy_of_the_binding_too():
    assert _after_a_copy(is_made_anew=True) == []
    assert "while its binding to n1" in _after_a_copy(is_made_anew=False)[0]
