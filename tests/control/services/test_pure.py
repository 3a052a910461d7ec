"""Times, merge patches, scheduling blocks: what needs no database."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agent.messages import Capabilities
from hostler.control.schemas import Host, HostUse
from hostler.control.services.hosts.host_views import scheduling_of
from hostler.control.services.merge_patch import merge_patch
from hostler.control.services.times import format_optional_time, format_time, parse_time
from hostler.errors import InputError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


@given(st.integers(0, 2**62 - 1))
def test_times_come_back_to_the_microsecond(time_ns: int) -> None:
    assert parse_time("t", format_time(time_ns)) == time_ns // 1000 * 1000


@pytest.mark.parametrize(
    "text", ["soon", "2030-01-01", "2030-01-01T00:00:00", "1969-12-31T23:59:59Z", "9999-01-01T00:00:00Z", "2030-13-01"]
)
def test_what_is_no_time_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(InputError, match=r"^until: "):
        parse_time("until", text)


def test_zones_count_and_nothing_is_zero() -> None:
    assert parse_time("t", "1970-01-01T01:00:00+01:00") == 0
    assert parse_time("t", "") == 0
    assert format_optional_time(0) is None
    assert format_time(1_500_000_000) == "1970-01-01T00:00:01.500000Z"


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [  # the examples of RFC 7396 that are objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_patches_merge_as_the_standard_says(old: dict[str, Any], patch: dict[str, Any], new: dict[str, Any]) -> None:
    assert merge_patch(old, patch) == new


@given(OBJECTS, OBJECTS)
def test_patch_is_idempotent_and_keeps_its_input(old: dict[str, Any], patch: dict[str, Any]) -> None:
    before = repr((old, patch))
    once = merge_patch(old, patch)
    assert merge_patch(once, patch) == once
    assert repr((old, patch)) == before


def _host(**changes: Any) -> Host:
    nothing = HostUse(cpu_millis=0, memory_bytes=0, disk_bytes=0)
    plain: dict[str, Any] = {
        "id": "h", "name": "h", "state": "ready", "cordoned": False, "draining": False, "driver": "",
        "agent_version": "",
        "capabilities": Capabilities(), "size": nothing, "may_give": nothing, "used": nothing, "vms": 0, "devices": [],
        "storages": [], "bridges": [], "labels": {}, "own_labels": {}, "taints": [], "overcommit": {}, "reserve": {},
        "unknown_vms": [], "refused_teardown": 0, "inventory_known": True, "stuck": [], "seen_at": None,
        "created_at": "", "updated_at": "", "version": 1, "watched": False, "devices_used": [],
        "unknown_use": nothing, "registered": True, "trouble": "",
    }  # fmt: skip
    return Host(**{name: value for name, value in {**plain, **changes}.items() if name in Host.__struct_fields__})


def test_a_host_without_anything_is_not_used() -> None:
    found = scheduling_of(_host(), 0)
    assert (found.cpu_percent, found.memory_percent, found.disk_percent) == (0.0, 0.0, 0.0)
    assert "CPU: 0/0 (0.0% used)" in found.text


@pytest.mark.parametrize(
    ("state", "status"), [("ready", "online"), ("silent", "unknown"), ("offline", "offline"), ("fenced", "offline")]
)
def test_states_have_the_words_of_the_seed(state: str, status: str) -> None:
    assert scheduling_of(_host(state=state), 0).status == status


def test_utilisation_is_that_of_the_seeds_table() -> None:
    total = HostUse(cpu_millis=8000, memory_bytes=16000, disk_bytes=100000)
    used = HostUse(cpu_millis=2000, memory_bytes=4000, disk_bytes=20000)
    found = scheduling_of(_host(may_give=total, used=used), 3)
    assert (found.cpu_percent, found.memory_percent, found.disk_percent) == (25.0, 25.0, 20.0)
    assert found.running_vms == 3
