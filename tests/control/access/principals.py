"""Principals, random bytes that repeat, and works of the store, short to write."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import strategies as st

from hostler.control.access.principals import Principal
from hostler.control.access.roles import PERMISSIONS, ROLES

__all__ = [
    "PATTERNS", "ROOT", "S", "make_principal", "on_both", "patterns", "principals", "projects", "repeatable_random",
]  # fmt: skip

S = 1_000_000_000
on_both = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
ROOT = Principal(id="root", name="root", role="admin")

projects = st.sampled_from(("", "shop", "bank"))
_resources = sorted({name.split(".")[0] for name in PERMISSIONS})
_verbs = sorted({name.split(".")[1] for name in PERMISSIONS})
PATTERNS = (
    "*",
    *PERMISSIONS,
    *(f"{name}.*" for name in _resources),
    *(f"*.{name}" for name in _verbs),
)
patterns = st.sampled_from(PATTERNS)
principals = st.builds(
    Principal,
    id=st.just("me"),
    role=st.sampled_from(ROLES),
    project=projects,
    scopes=st.lists(patterns, min_size=1, max_size=4, unique=True).map(tuple),
    until_ns=st.sampled_from((None, 50, 100)),
)


def repeatable_random(start: int = 0):
    """Return a source of bytes that look random and are the same in every run."""
    numbers = iter(range(start, start + 10_000))

    def give(count: int) -> bytes:
        return hashlib.shake_256(str(next(numbers)).encode()).digest(count)

    return give


def make_principal(role: str = "admin", project: str = "", **rest) -> Principal:
    return Principal(id="someone", name="someone", role=role, project=project, **rest)
