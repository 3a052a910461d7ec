"""Racks and servers as labels of hosts: for hosts in memory, and for folders of Kubernetes nodes.

Host i of a list, or of a file, is server ``srv-{i % n}`` of rack ``rack-{i // n}``, unless it says otherwise. The
labeled copies of a folder come with copies of its pods, so that they are a whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from hostler.config import Document, invalid, read_documents, write_yaml
from hostler.errors import DuplicateNameError, InputError
from hostler.model import Host

__all__ = ["HIER", "RACK", "SERVER", "LabeledFile", "label_folder", "label_nodes", "with_racks"]

RACK = "rack"
SERVER = "server"
HIER = "-hier"  # the end of a labelled copy's name
_SUFFIXES = (".yaml", ".yml")

Write = Callable[[Path, bytes], None]


class LabeledFile(NamedTuple):
    """The result for one file with nodes, or with the pods that belong to them."""

    source: Path
    target: Path | None  # None: nothing was to be done
    nodes: int
    changed: int  # nodes that got a label
    racks: int
    pods: int = 0


def with_racks(hosts: Sequence[Host], servers_per_rack: int) -> tuple[Host, ...]:
    """Return the hosts with labels for their rack and their place in it; labels that are there stay."""
    _check(servers_per_rack)
    return tuple(
        msgspec.structs.replace(
            host, labels=tuple(sorted({**_labels(at, servers_per_rack), **dict(host.labels)}.items()))
        )
        for at, host in enumerate(hosts)
    )


def label_folder(folder: Path, servers_per_rack: int, write: Write, *, in_place: bool = False) -> list[LabeledFile]:
    """Label the nodes of every YAML file below a folder.

    Without ``in_place`` a labeled copy is written beside the original: ``nodes-hier.yaml`` beside ``nodes.yaml``. It is
    rewritten each time, and never labeled itself. Files with pods that lie beside a file with nodes are copied as they
    are, so that the copies of a folder are a whole cluster. All other files are left alone.
    """
    _check(servers_per_rack)
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
    originals = [path for path in files if not path.stem.endswith(HIER)]
    copies = {path for path in files if path.stem.endswith(HIER)}
    if in_place and copies:
        raise DuplicateNameError(
            f"{folder} has a labelled copy already: {min(copies).name}",
            hint="remove it first: both together would double the cluster",
        )
    done: list[LabeledFile] = []
    plans: list[tuple[Path, bytes]] = []
    pods_of: dict[Path, int] = {}  # files without nodes
    for source in originals:
        documents = read_documents([str(source)])
        objects, nodes, changed = label_nodes(documents, servers_per_rack)
        pods = sum(_count_pods(document.data) for document in documents)
        if not nodes:
            pods_of[source] = pods
            continue
        target = source if in_place else _copy_of(source)
        content = "---\n".join(write_yaml(data) for data in objects).encode()
        is_there = (not changed) if in_place else (target in copies and target.read_bytes() == content)
        if not is_there:
            plans.append((target, content))
        racks = -(-nodes // servers_per_rack)
        done.append(LabeledFile(source, None if is_there else target, nodes, changed, racks, pods))
    folders = {one.source.parent for one in done}
    for source, pods in pods_of.items():
        if pods and source.parent in folders and not in_place:
            target, content = _copy_of(source), source.read_bytes()
            is_there = target in copies and target.read_bytes() == content
            if not is_there:
                plans.append((target, content))
            done.append(LabeledFile(source, None if is_there else target, 0, 0, 0, pods))
    if not done:
        raise InputError(f"{folder}: there are no nodes in it", hint="it needs .yaml files with objects of kind Node")
    for target, content in plans:  # nothing is written before everything was read
        write(target, content)
    return sorted(done)


def _copy_of(source: Path) -> Path:
    return source.with_name(f"{source.stem}{HIER}{source.suffix}")


def _count_pods(data: object, kind: str = "") -> int:
    """Count the pods of a document, those in lists too."""
    if not isinstance(data, Mapping):
        return 0
    kind = str(data.get("kind") or kind)
    items = data.get("items")
    if kind.endswith("List") and isinstance(items, list):
        return sum(_count_pods(item, kind.removesuffix("List")) for item in items)
    return int(kind == "Pod")


def label_nodes(documents: Sequence[Document], servers_per_rack: int) -> tuple[list[object], int, int]:
    """Return the objects with labelled nodes, how many nodes there are, and how many got a label."""
    nodes = changed = 0

    def labelled(document: Document, data: object, path: tuple[str | int, ...] = (), kind: str = "") -> object:
        nonlocal nodes, changed
        if not isinstance(data, Mapping):
            return data
        kind = str(data.get("kind") or kind)
        items = data.get("items")
        if kind.endswith("List"):
            if not isinstance(items, list):
                raise invalid(document, (*path, "items"), "must be a list")
            inside = kind.removesuffix("List")
            items = [labelled(document, item, (*path, "items", at), inside) for at, item in enumerate(items)]
            return {**data, "items": items}
        if kind != "Node":
            return data
        metadata = data.get("metadata")
        if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
            raise invalid(document, (*path, "metadata"), "of a node must be a mapping with a name")
        present = metadata.get("labels") or {}
        if not isinstance(present, Mapping):
            raise invalid(document, (*path, "metadata", "labels"), "must be a mapping")
        wanted = {**present, **{k: v for k, v in _labels(nodes, servers_per_rack).items() if k not in present}}
        nodes += 1
        changed += len(wanted) > len(present)
        return {**data, "metadata": {**metadata, "labels": wanted}}

    return [labelled(document, document.data) for document in documents], nodes, changed


def _labels(at: int, servers_per_rack: int) -> dict[str, str]:
    return {RACK: f"rack-{at // servers_per_rack}", SERVER: f"srv-{at % servers_per_rack}"}


def _check(servers_per_rack: int) -> None:
    if servers_per_rack < 1:
        raise InputError(f"a rack cannot have {servers_per_rack} servers", hint="give 1 or more")
