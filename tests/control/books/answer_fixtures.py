"""Fixtures of the tests of answer processes: one kind of database, and a process that finds the tests' questions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

__all__ = ["questions_of_tests", "url"]


@pytest.fixture
def url(sqlite_url: str) -> str:
    """Give one kind of database: answers do not depend on it."""
    return sqlite_url


@pytest.fixture(autouse=True)
def questions_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process find the questions of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]), prepend=os.pathsep)
