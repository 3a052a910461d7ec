"""Thousands of policies in one file: the work grows with their number, not with its square.

Nothing here measures time; what is counted is how often names are looked at.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping

from hostler.config import DeclaredFleet, merge_fleets, parse_documents, read_fleet, read_settings
from hostler.model import Policy

SEVERAL = 40
BASE = Policy(name="base")


class Watched(Mapping[str, Policy]):
    """Known policies that count how often all of them are iterated."""

    def __init__(self) -> None:
        self.walks = 0

    def __getitem__(self, name: str) -> Policy:
        return {"base": BASE}[name]

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return iter(["base"])

    def __len__(self) -> int:
        return 1


class Name(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def _config(count: int) -> bytes:
    entries = [{"name": f"p{number}", "extends": "base"} for number in range(count)]
    return json.dumps({"apiVersion": "hostler/v1", "kind": "Config", "policies": entries}, indent=1).encode()


def _calls(work: Callable[[], object]) -> int:
    """Count the Python functions that are called, generators that go on included."""
    count = 0

    def look(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_reading_does_not_walk_through_the_known_policies_for_each():
    known = Watched()
    (document,) = parse_documents(_config(SEVERAL).replace(b"Config", b"Fleet"), "f.json")
    assert len(read_fleet(document, known).policies) == SEVERAL
    assert known.walks <= 1


def test_a_policy_still_extends_those_before_it():
    entries = [{"name": "one", "extends": "base", "summary": "first"}, {"name": "two", "extends": "one"}]
    content = json.dumps({"apiVersion": "hostler/v1", "kind": "Config", "policies": entries}).encode()
    settings = read_settings(parse_documents(content, "c.json")[0], {"base": BASE})
    assert [policy.summary for policy in settings.policies] == ["first", "first"]


def test_merging_does_not_compare_every_policy_with_every_other():
    fleets = [DeclaredFleet(policies=(Policy(name=Name(f"p{number}")),)) for number in range(SEVERAL)]
    Name.compared = 0
    assert len(merge_fleets(fleets).policies) == SEVERAL
    assert Name.compared <= SEVERAL


def test_the_lines_of_policies_in_json_are_found_in_one_go():
    few, many = (parse_documents(_config(count), "c.json")[0] for count in (SEVERAL, 4 * SEVERAL))
    settings = read_settings(many, {"base": BASE})
    assert [one.origin for one in settings.shown if one.name == "policies.p7"] == [f"c.json:{5 + 4 * 7}"]
    base = _calls(lambda: read_settings(few, {"base": BASE}))
    assert _calls(lambda: read_settings(many, {"base": BASE})) < 6 * base
