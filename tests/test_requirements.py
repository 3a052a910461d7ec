"""The pinned packages of servers and agents are those that were tested: the same versions, by the same hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXTRAS = {"server": ("server", "postgres"), "agent": ("agent",), "kube": ("kube",)}
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;\\]+)([^\\\n]*)", re.MULTILINE)


def pins(name: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the versions and hashes of a file of requirements, by package."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    starts = list(_PIN.finditer(text))
    found = {}
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        block = text[start.start() : end.start() if end is not None else None]
        found[normal(start[1])] = (start[2], frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block)))
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", EXTRAS)
def test_requirements_are_a_subset_of_what_is_tested(name: str) -> None:
    """Neither another version nor another file of a package reaches a host."""
    tested, found = pins("dev"), pins(name)
    assert found
    assert {package: tested.get(package) for package in found} == found
    assert all(hashes for _, hashes in found.values())


@pytest.mark.parametrize(("name", "extras"), EXTRAS.items(), ids=EXTRAS)
def test_requirements_cover_the_extras(name: str, extras: tuple[str, ...]) -> None:
    """What pyproject.toml declares is all pinned, so that pip has nothing left to choose."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    names = {normal(match[0]) for one in declared if (match := re.match(r"[A-Za-z0-9._-]+", one))}
    assert len(names) >= len(extras)
    assert names <= set(pins(name))


@pytest.mark.parametrize("name", EXTRAS)
def test_requirements_are_made_by_make_lock_and_documented(name: str) -> None:
    """The file names how it is made, and the guide or the image installs it with hashes."""
    place = f"requirements/{name}.txt"
    assert "make lock" in (ROOT / place).read_text().splitlines()[1]
    assert f"-o {place}" in (ROOT / "Makefile").read_text()
    users = "\n".join((ROOT / path).read_text() for path in ("docs/guides/running.md", "Dockerfile"))
    assert f"--require-hashes --requirement {place}" in users
