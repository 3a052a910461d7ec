"""The pinned Go modules from which control planes are built: where they are, what each binary is made of.

A wheel carries them as package data; in a checkout they are ``tools/kube``. Their content names the folder of what is
built, so that another pin never uses an older binary. Used by ``binaries`` and ``build``.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from hostler.config import cache_folder
from hostler.errors import InternalError

__all__ = ["BINARIES", "Recipe", "build_folder", "modules_folder", "modules_key", "recipe_of"]

_KUBERNETES = ("kube-apiserver", "kubectl", "kube-scheduler", "kube-controller-manager")

# In the order of need: a cluster can start when the first two are there.
BINARIES = ("etcd", *_KUBERNETES, "kwok")

# module in tools/kube: the Go module that it pins
_PINS = {"etcd": "go.etcd.io/etcd/server/v3", "kubernetes": "k8s.io/kubernetes", "kwok": "sigs.k8s.io/kwok"}


class Recipe(msgspec.Struct, frozen=True):
    """How one binary is built: in which of our modules, from which package, and what it is told of its version."""

    binary: str
    module: str
    package: str
    version: str  # as pinned, with the v
    stamp: str  # the linker's -X flags, because a build from a module knows no version


def modules_folder() -> Path:
    """Return the folder with the Go modules."""
    packaged = Path(__file__).parent / "modules"
    if packaged.is_dir():
        return packaged
    return Path(__file__).parents[4] / "tools" / "kube"


def modules_key(folder: Path) -> str:
    """Return what names a build: a hash of every go.mod and go.sum."""
    digest = hashlib.sha256()
    files = sorted([*folder.glob("*/go.mod"), *folder.glob("*/go.sum")])
    if not files:
        raise InternalError(f"{folder}: no Go modules there", hint="install Hostler again")
    for path in files:
        digest.update(f"{path.parent.name}/{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def build_folder() -> Path:
    """Return the folder in the user's cache where binaries of these very modules are kept."""
    return cache_folder() / "kube" / modules_key(modules_folder())


def recipe_of(binary: str) -> Recipe:
    """Return how a binary is built."""
    if binary in _KUBERNETES:
        version = _pinned("kubernetes")
        major, minor = version[1:].split(".")[:2]
        facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        stamp = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in facts.items())
        return Recipe(binary, "kubernetes", f"k8s.io/kubernetes/cmd/{binary}", version, stamp)
    version = _pinned(binary)
    if binary == "kwok":
        stamp = f"-X sigs.k8s.io/kwok/pkg/consts.Version={version}"
        return Recipe(binary, "kwok", "sigs.k8s.io/kwok/cmd/kwok", version, stamp)
    return Recipe(binary, "etcd", _PINS["etcd"], version, "")


def _pinned(module: str) -> str:
    path = modules_folder() / module / "go.mod"
    found = re.search(rf"^require {re.escape(_PINS[module])} (v[\d.]+)", path.read_text(), re.MULTILINE)
    if found is None:
        raise InternalError(f"{path}: does not require {_PINS[module]}")
    return found[1]
