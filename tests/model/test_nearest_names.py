"""The name that a user may have meant."""

from __future__ import annotations

from hostler.model.nearest_names import nearest_name


def test_slip_of_the_pen_finds_its_name():
    assert nearest_name("least_alocated", ["most_allocated", "least_allocated", "balanced"]) == "least_allocated"


def test_name_that_is_like_none_finds_nothing():
    assert nearest_name("zebra", ["most_allocated", "balanced"]) == ""
    assert nearest_name("zebra", []) == ""


def test_many_names_are_narrowed_by_their_ends():
    known = [f"host-{number:06d}" for number in range(10_000)] + ["gpu-node-a"]
    assert nearest_name("gpu-nod-a", known) == "gpu-node-a"
