"""Files of kind ``Load``, and the settings that they become.

Unknown keys, and values that no server would accept, are rejected with their line. The JSON schema is made from the
structs of the file, so their docstrings and descriptions are for users.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from hostler.config import Document, check_kind, convert, invalid, means, quote, read_documents
from hostler.config.entries import read_duration
from hostler.config.key_paths import Path
from hostler.errors import InputError
from hostler.kube.settings import DEFAULT_SCHEDULER_NAME

__all__ = [
    "Churn",
    "Gangs",
    "LoadChurn",
    "LoadFile",
    "LoadGangs",
    "LoadNodes",
    "LoadPods",
    "LoadSettings",
    "Nodes",
    "Pods",
    "read_load",
    "read_load_file",
]

Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Size = Annotated[int, Meta(ge=1, le=10_000)]
Rate = Annotated[float, Meta(ge=0, le=100_000)]

_TEMPLATE = "Fields that override the defaults: metadata (labels, annotations), spec"
Template = dict[str, Any]
GangApi = Literal["auto", "built-in", "crd"]

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")
_SECOND = 1_000_000_000
_PARTS = ("nodes", "pods", "gangs", "churn")
_TEMPLATE_KEYS = ("metadata", "spec", "status")


class LoadNodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes without machines; kwok may simulate them."""

    count: Annotated[Count, means("How many.")]
    template: Annotated[
        Template, means(f"{_TEMPLATE}, status. Ours: 8 CPUs, 32 GiB, 110 pods, three zones in turn.")
    ] = {}


class LoadPods(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods that stay."""

    count: Annotated[Count, means("How many.")]
    rate: Annotated[Rate, means("Rate per second. 0: as fast as the server accepts them.")] = 0.0
    template: Annotated[Template, means(f"{_TEMPLATE}. Ours: one container, 100m of CPU and 128 MiB.")] = {}


class LoadGangs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Groups of pods that are placed together or not at all."""

    count: Annotated[Count, means("The number of groups.")]
    size: Annotated[Size, means("The number of pods of each.")]
    min: Annotated[Size | UnsetType, means("How many of them must fit together. Unset: all.")] = UNSET
    rate: Annotated[Rate, means("Groups per second. 0: as fast as the server accepts them.")] = 0.0
    api: Annotated[
        Literal["auto", "built-in", "crd"],
        means("The API group of PodGroup: scheduling.k8s.io, scheduling.x-k8s.io, or the first that the server has."),
    ] = "auto"
    template: Annotated[Template, means(f"{_TEMPLATE}; of the pods.")] = {}


class LoadChurn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods that are created and deleted throughout the load."""

    rate: Annotated[float, Meta(gt=0, le=100_000), means("Pods created per second.")]
    lifetime: Annotated[str, means("Lifetime of each.")] = "30s"
    template: Annotated[Template, means(f"{_TEMPLATE}.")] = {}


class LoadFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What 'hostler kube load' creates on a cluster."""

    api_version: Annotated[Literal["hostler/v1"], means("The version of the format.")] = msgspec.field(
        name="apiVersion"
    )
    kind: Annotated[Literal["Load"], means("The kind of the file.")]
    name: Annotated[str, means("The prefix of all names, and the value of the label hostler.dev/load.")] = "load"
    namespace: Annotated[str, means("The namespace of pods and groups; it must exist.")] = "default"
    scheduler_name: Annotated[str, means("What pods have in spec.schedulerName.")] = DEFAULT_SCHEDULER_NAME
    nodes: Annotated[LoadNodes | UnsetType, means("Created first. Unset: none.")] = UNSET
    pods: Annotated[LoadPods | UnsetType, means("Unset: none.")] = UNSET
    gangs: Annotated[LoadGangs | UnsetType, means("Unset: none.")] = UNSET
    churn: Annotated[LoadChurn | UnsetType, means("Unset: none.")] = UNSET


class Nodes(msgspec.Struct, frozen=True):
    """Nodes to create."""

    count: int = 0
    template: Template = {}


class Pods(msgspec.Struct, frozen=True):
    """Pods to create; a rate of 0 is no limit."""

    count: int = 0
    rate: float = 0.0
    template: Template = {}


class Gangs(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of pods to create."""

    count: int = 0
    size: int = 1
    min: int = 1
    rate: float = 0.0
    api: GangApi = "auto"
    template: Template = {}


class Churn(msgspec.Struct, frozen=True):
    """Pods that are created and deleted; a rate of 0 means none."""

    rate: float = 0.0
    lifetime_s: float = 30.0
    template: Template = {}


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of a load."""

    name: str
    namespace: str
    scheduler_name: str
    nodes: Nodes = Nodes()
    pods: Pods = Pods()
    gangs: Gangs = Gangs()
    churn: Churn = Churn()


def read_load_file(path: str) -> LoadSettings:
    """Read a file with one document of kind ``LoadSettings``."""
    documents = read_documents([path])
    if len(documents) != 1:
        raise InputError(f"{path}: it has {len(documents)} documents", hint="a load has one")
    return read_load(documents[0])


def read_load(document: Document) -> LoadSettings:
    """Return what a document of kind ``LoadSettings`` describes."""
    check_kind(document, "Load")
    file = convert(document, document.data, LoadFile)
    for key in ("name", "namespace"):
        if not _NAME.fullmatch(getattr(file, key)):
            raise invalid(
                document, (key,), f"is {quote(getattr(file, key))}", hint="at most 40 lowercase letters, digits and '-'"
            )
    if all(getattr(file, part) is UNSET for part in _PARTS):
        raise invalid(document, (), "creates nothing", hint=f"give one of {', '.join(_PARTS)}")
    for part in _PARTS:
        entry = getattr(file, part)
        if entry is not UNSET:
            _check_template(document, (part, "template"), entry.template)
    return LoadSettings(
        name=file.name,
        namespace=file.namespace,
        scheduler_name=file.scheduler_name,
        nodes=Nodes() if file.nodes is UNSET else Nodes(file.nodes.count, file.nodes.template),
        pods=Pods() if file.pods is UNSET else Pods(file.pods.count, file.pods.rate, file.pods.template),
        gangs=_gangs(document, file),
        churn=_churn(document, file),
    )


def _gangs(document: Document, file: LoadFile) -> Gangs:
    entry = file.gangs
    if entry is UNSET:
        return Gangs()
    least = entry.size if entry.min is UNSET else entry.min
    if least > entry.size:
        raise invalid(document, ("gangs", "min"), f"is more than the size, {entry.size}", hint="lower it")
    return Gangs(count=entry.count, size=entry.size, min=least, rate=entry.rate, api=entry.api, template=entry.template)


def _churn(document: Document, file: LoadFile) -> Churn:
    entry = file.churn
    if entry is UNSET:
        return Churn()
    lifetime = read_duration(document, ("churn", "lifetime"), entry.lifetime)
    return Churn(entry.rate, lifetime / _SECOND, entry.template)


def _check_template(document: Document, path: Path, template: Template) -> None:
    """Reject what is not part of an object, and names: those are generated."""
    for key, value in template.items():
        if key not in _TEMPLATE_KEYS:
            raise invalid(
                document, (*path, key), "is not allowed in a template", hint=f"one of {', '.join(_TEMPLATE_KEYS)}"
            )
        if not isinstance(value, dict):
            raise invalid(document, (*path, key), "must be a mapping")
    for key in ("name", "namespace", "generateName"):
        if key in template.get("metadata", {}):
            raise invalid(document, (*path, "metadata", key), "is set by the load", hint="remove it")
