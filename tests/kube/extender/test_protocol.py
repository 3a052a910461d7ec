"""Messages between schedulers and extenders."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.errors import InputError
from hostler.kube.extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaVictims,
    read_message,
    read_priorities,
)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ExtenderArgs, ["Pod", "Nodes", "NodeNames"]),
        (ExtenderFilterResult, ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]),
        (ExtenderPreemptionArgs, ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"]),
        (ExtenderPreemptionResult, ["NodeNameToMetaVictims"]),
        (ExtenderBindingArgs, ["PodName", "PodNamespace", "PodUID", "Node"]),
        (ExtenderBindingResult, ["Error"]),
        (MetaVictims, ["Pods", "NumPDBViolations"]),
    ],
)
def test_fields_have_the_names_of_the_go_types(kind, fields):
    assert list(json.loads(msgspec.json.encode(kind()))) == fields


def test_names_are_read_in_any_case_and_nulls_are_nothing():
    found = read_message(b'{"nodenames": ["a"], "failednodes": null, "error": "", "More": 1}', ExtenderFilterResult)
    assert found == ExtenderFilterResult(NodeNames=["a"])
    assert read_priorities(b'[{"host": "a", "score": 3}, {"Host": "b", "Score": 4}]') == [
        HostPriority("a", 3),
        HostPriority("b", 4),
    ]
    assert read_priorities(b"null") == []


def test_nodes_are_named_by_either_form():
    assert read_message(b'{"NodeNames": ["a", "b"]}', ExtenderArgs).names() == ["a", "b"]
    body = b'{"Nodes": {"metadata": {}, "items": [{"metadata": {"name": "a"}}, {"metadata": 3}, {}]}}'
    assert read_message(body, ExtenderArgs).names() == ["a"]
    assert read_message(b"{}", ExtenderArgs).names() == []


@given(st.one_of(st.binary(max_size=40), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["NodeNames", "Nodes", "items", "Host", "Score", "Pod", "Error"]), inner),
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_any_body_is_read_or_refused(body):
    for read in (lambda: read_message(body, ExtenderArgs), lambda: read_priorities(body)):
        try:
            read()
        except InputError as error:
            seen = error.message
            assert seen.startswith("not a valid")
