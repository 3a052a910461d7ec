"""The word that something changed: from a stream, and without one."""

from __future__ import annotations

import threading

import pytest

from hostler.control.client import ServerTarget
from hostler.control.client.change_feed import ChangeFeed
from hostler.control.schemas import VmCreate
from hostler.control.vms.spec import VmSpec
from tests.cli.control.control_plane_thread import plane
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server
from tests.wait import wait_until

NEVER_S = 3600.0
NEWS = ScriptedAnswer(body=b": hi\n\nevent: news\ndata: 7\n\n", headers={"Content-Type": "text/event-stream"})
REFUSED = ScriptedAnswer(
    status=403, body={"code": "forbidden", "title": "no", "status": 403, "detail": "no", "hint": ""}
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with plane(tmp_path_factory.mktemp("plane")) as running:
        yield running


def target(server: str, key: str = "") -> ServerTarget:
    return ServerTarget(server=server, key=key)


def waiting(news: ChangeFeed) -> tuple[threading.Thread, threading.Event]:
    """Wait for news beside the test."""
    is_over = threading.Event()

    def run() -> None:
        news.wait()
        is_over.set()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, is_over


def test_stream_wakes_waiting_calls_when_something_changes(served):
    with ChangeFeed(target(served.address, served.key), poll_s=NEVER_S, look_s=NEVER_S) as news:
        news.wait()  # the stream begins with a word
        assert news.is_live
        thread, is_over = waiting(news)
        with served.client() as client:
            client.vms.create(VmCreate(name="web", spec=VmSpec(cpu=1, memory="1Gi")))
        assert is_over.wait(60)
        thread.join()


def test_the_end_does_not_wait_for_the_server(served):
    with ChangeFeed(target(served.address, served.key), poll_s=NEVER_S, look_s=NEVER_S) as news:
        news.wait()
    assert not news._thread.is_alive()
    assert not news.is_live


def test_a_stream_that_broke_is_asked_for_again():
    with scripted_server(*[NEWS] * 1000) as script, ChangeFeed(target(script.address), poll_s=0.1, look_s=NEVER_S):
        wait_until(lambda: len(script.heard) >= 3)
    assert {heard.path for heard in script.heard} == {"/v1/events?news=true"}


def test_without_a_stream_waiting_calls_poll():
    with (
        scripted_server(*[REFUSED] * 1000) as script,
        ChangeFeed(target(script.address), poll_s=0.01, look_s=1.0) as news,
    ):
        for _ in range(20):
            news.wait()
        assert not news.is_live


def test_a_server_that_is_gone_is_looked_for_now_and_then():
    with scripted_server() as script:
        address = script.address
    with ChangeFeed(target(address), poll_s=0.01, look_s=0.05) as news:
        for _ in range(5):
            news.wait()
        assert not news.is_live
