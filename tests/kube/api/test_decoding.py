"""Bytes of the API become structs, and invalid objects are reported."""

from __future__ import annotations

import json

import pytest

from hostler.errors import InputError
from hostler.kube.api.decoding import UndecodableObject, key_of, read_item, read_line, read_page, uid_of, version_of
from hostler.kube.api.resources import LEASES, NODES, PODS
from tests.kube.api.scripted_server import page, pod


def read_one(body: bytes):
    """Read a pod in a page beside a good one."""
    good = json.dumps(pod("good", 2)).encode()
    answer = read_page(PODS, b'{"metadata":{"resourceVersion":"1"},"items":[%s,%s]}' % (body, good))
    assert answer.items[1].metadata.name == "good"
    return answer.items[0]


def test_nulls_count_as_fields_that_are_not_there():
    item = read_one(b'{"metadata":{"name":"a","labels":null},"spec":{"containers":null,"nodeName":null}}')
    assert item.metadata.name == "a"
    assert item.spec.containers == ()


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata":{"name":"a","uid":"u"},"spec":{"affinity":"near"}}',
        b'{"metadata":{"name":"a","uid":"u"},"spec":{"priority":1e999}}',
        b'{"metadata":{"name":"a","uid":"u","labels":{"x":null}}}',
        b'{"metadata":{"name":"a","uid":"u","labels":[]}}',
    ],
)
def test_an_object_that_cannot_be_read_is_broken_and_has_its_name(body):
    item = read_one(body)
    assert isinstance(item, UndecodableObject)
    assert (item.name, item.uid) == ("a", "u")
    assert item.error


@pytest.mark.parametrize("body", [b"7", b"null", b"[]", b'"text"'])
def test_what_is_no_object_at_all_is_broken(body):
    item = read_one(body)
    assert isinstance(item, UndecodableObject)
    assert item.name == ""


def test_nesting_beyond_all_measure_is_broken_and_harms_nobody():
    deep = b'{"metadata":{"name":"a"},"spec":{"volumes":[' + b'{"x":' * 5000 + b"1" + b"}" * 5000 + b"]}}"
    with pytest.raises(InputError):
        read_item(PODS, deep)


def test_text_that_is_no_utf8_is_taken_or_marked_but_harms_nobody():
    item = read_one(b'{"metadata":{"name":"a","annotations":{"x":"\xff\xfe"}}}')
    assert key_of(item)[1] == "a"


def test_an_annotation_of_a_megabyte_is_nothing_special():
    item = read_one(json.dumps({"metadata": {"name": "a", "annotations": {"x": "y" * 2**20}}}).encode())
    assert len(item.metadata.annotations["x"]) == 2**20


def test_an_error_names_the_object_and_the_path():
    with pytest.raises(InputError, match=r"Pod default/a: spec\.nodeName: expected str, got int"):
        read_item(PODS, json.dumps(pod("a", nodeName=7)).encode())


def test_identity_is_the_same_for_good_and_broken_objects():
    good = read_item(PODS, json.dumps(pod("a", 7)).encode())
    broken = UndecodableObject("default", "a", "uid-a", "7", "why")
    for read in (key_of, uid_of, version_of):
        assert read(good) == read(broken)


def test_error_line_keeps_its_bytes_even_if_it_reads_as_an_object():
    word, _, body = read_line(NODES, b'{"type":"ERROR","object":{"code":410,"metadata":{}}}')
    assert (word, json.loads(body)["code"]) == ("ERROR", 410)


def test_times_of_leases_stay_as_written():
    lease = read_item(LEASES, b'{"spec":{"renewTime":"2026-11-15T10:00:00.000001Z","leaseDurationSeconds":15}}')
    assert lease.spec.renew_time == "2026-11-15T10:00:00.000001Z"


def test_a_page_has_its_version_and_the_token_of_the_next():
    answer = read_page(PODS, json.dumps(page([], 5, "more")).encode())
    assert (answer.version, answer.next) == ("5", "more")
