"""The map of the architecture is complete: it names every module of the engine, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "src" / "hostler" / "engine"
MAP = (ROOT / "ARCHITECTURE.md").read_text()


def test_every_module_of_the_engine_is_on_the_map():
    for package in [ENGINE, *(path.parent for path in ENGINE.glob("*/__init__.py") if path.parent.name != "plugins")]:
        row = re.search(rf"^\| `{package.name}/` \|(?! the pure core)(.*)$", MAP, re.MULTILINE)
        assert row, package.name
        named = set(re.findall(r"`([a-z_]+\.py)`", row[1]))
        assert {path.name for path in package.glob("*.py")} - {"__init__.py"} <= named, package.name


def test_every_file_on_the_map_exists():
    package = ROOT / "src" / "hostler"
    for name in re.findall(r"`([a-z_/]+(?:\.py|/))`", MAP):
        assert (ENGINE / name).exists() or any(package.rglob(name.rstrip("/"))), name


def test_every_package_is_on_the_map():
    package = ROOT / "src" / "hostler"
    folders = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    assert folders <= set(re.findall(r"^\| `([a-z]+/)`", MAP, re.MULTILINE))


def test_every_part_of_the_kubernetes_front_is_on_the_map():
    kube = ROOT / "src" / "hostler" / "kube"
    folders = {f"{path.parent.name}/" for path in kube.glob("*/__init__.py")}
    assert folders <= set(re.findall(r"`([a-z]+/)`", MAP))
