"""Server-sent events, and pages that are read only as far as the caller iterates."""

from __future__ import annotations

from itertools import islice

from hostler.control.client.client import Client
from hostler.control.client.responses import StreamMessage, read_messages
from hostler.control.client.server_target import ServerTarget
from tests.control.client.scripted_server import ScriptedAnswer, scripted_server


def event(seq):
    return {
        "seq": seq, "at": "2030-01-01T00:00:00Z", "kind": "vm.create", "actor": "key/a", "project": "default",
        "subject": "x", "text": "created", "request_id": "",
    }  # fmt: skip


def stream(*seqs, is_cut=False):
    import json

    text = ": hello\n\n" + "".join(f"id: {seq}\ndata: {json.dumps(event(seq))}\n\n" for seq in seqs)
    return ScriptedAnswer(body=text.encode(), headers={"Content-Type": "text/event-stream"}, is_cut=is_cut)


def test_a_message_may_have_several_lines():
    lines = ["data: a", "data: b", "", "data:c", ""]
    assert list(read_messages(lines)) == [StreamMessage(data="a\nb"), StreamMessage(data="c")]


def test_comments_and_fields_that_nobody_knows_are_passed_over():
    assert list(read_messages([": alive", "", "retry: 5", "color: red", "data: x", ""])) == [StreamMessage(data="x")]


def test_the_last_id_stays_until_another_comes():
    lines = ["id: 7", "event: vm", "data: a", "", "data: b", "", "id: 8", "data: c", ""]
    assert list(read_messages(lines)) == [
        StreamMessage(data="a", id="7", event="vm"),
        StreamMessage(data="b", id="7"),
        StreamMessage(data="c", id="8"),
    ]


def test_half_a_message_is_none():
    assert list(read_messages(["data: a", "", "data: b"])) == [StreamMessage(data="a")]


def test_a_stream_that_broke_is_taken_up_where_it_broke():
    with scripted_server(stream(1, 2), stream(3)) as script, Client(ServerTarget(server=script.address)) as client:
        seen = [one.seq for one in islice(client.follow(after=0), 3)]
    assert seen == [1, 2, 3]
    assert [heard.headers.get("last-event-id") for heard in script.heard] == ["0", "2"]


def test_pages_are_fetched_only_when_they_are_read():
    def page(*seqs, after):
        return ScriptedAnswer(body={"items": [event(seq) for seq in seqs], "next": after})

    with (
        scripted_server(page(1, 2, after="two"), page(3, after="")) as script,
        Client(ServerTarget(server=script.address)) as client,
    ):
        found = client.events()
        assert [one.seq for one in islice(found, 2)] == [1, 2]
        assert len(script.heard) == 1
        assert [one.seq for one in found] == [3]
    assert "after=two" in script.heard[1].path


def test_no_more_is_asked_for_than_is_wanted():
    page = ScriptedAnswer(body={"items": [event(1), event(2)], "next": "more"})
    with scripted_server(page) as script, Client(ServerTarget(server=script.address)) as client:
        assert len(list(client.events(limit=2))) == 2
    assert "limit=2" in script.heard[0].path
