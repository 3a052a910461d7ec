"""What somebody types to create a VM, as it was typed, and the request that REST would get for it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from hostler.control.api.shapes import Problem, VmCreate
from hostler.control.vms.names import refused_name
from hostler.errors import InputError
from hostler.web.fields import pairs_of, whole_number

__all__ = ["MOST_DISKS", "TypedDisk", "TypedVm", "place_of", "request_of", "typed_vm"]

MOST_DISKS = 16
_MOST_TEXT = 1024
_LEAST_PRIORITY, _MOST_PRIORITY = -(2**31), 2**31 - 1
_AT = re.compile(r" - at `\$\.(?:spec\.)?([^`]+)`$")
_BEGINS = re.compile(r"([a-z_]+(?:\[\d+\])?(?:\.[a-z_0-9]+)*): ")
_DISK = re.compile(r"disks\[(\d+)\](?:\.(size|storage|image(?:\.sha256)?))?")
_BY_CODE = {"name_taken": "name", "invalid_strategy": "strategy", "not_found": "project", "forbidden": "project"}


class TypedDisk(msgspec.Struct, frozen=True, kw_only=True):
    """One row of disks."""

    size: str = ""
    storage: str = ""
    image: str = ""
    sha256: str = ""


class TypedVm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form. A disk of which nothing is typed is none."""

    name: str = ""
    project: str = "default"
    cpu: str = "2"
    memory: str = "4Gi"
    priority: str = "0"
    strategy: str = ""
    gang: str = ""
    labels: str = ""
    on_unplaceable: str = "wait"
    disks: tuple[TypedDisk, ...] = (TypedDisk(),)

    @property
    def with_another_disk(self) -> TypedVm:
        """Return it with one more row to type into."""
        return msgspec.structs.replace(self, disks=(*self.disks, TypedDisk())[:MOST_DISKS])

    @property
    def without_gaps(self) -> TypedVm:
        """Return it without empty rows between those of disks, so that a row is where the request has its disk."""
        return msgspec.structs.replace(self, disks=tuple(one for one in self.disks if one != TypedDisk()))


def typed_vm(fields: Mapping[str, str], project: str = "default") -> TypedVm:
    """Return what a form or an address holds; the rest is as a new form has it."""
    default = TypedVm(project=project)
    found = {
        name: fields.get(name, getattr(default, name)).strip()[:_MOST_TEXT]
        for name in default.__struct_fields__
        if name != "disks"
    }
    disks = tuple(_typed_disk(fields, at) for at in range(MOST_DISKS) if f"disk-{at}-size" in fields)
    return TypedVm(**found, disks=disks or default.disks)


def request_of(typed: TypedVm) -> VmCreate:
    """Return what REST would be sent; InputError, which names the field."""
    spec: dict[str, object] = {
        "cpu": typed.cpu,
        "memory": typed.memory,
        "disks": [_disk(disk) for disk in typed.without_gaps.disks],
        "priority": whole_number("priority", typed.priority or "0", _LEAST_PRIORITY, _MOST_PRIORITY),
        "strategy": typed.strategy,
        "gang": typed.gang,
        "labels": pairs_of("labels", typed.labels),
    }
    body = {"name": typed.name, "project": typed.project, "spec": spec, "on_unplaceable": typed.on_unplaceable}
    try:
        return msgspec.convert(body, VmCreate)
    except msgspec.ValidationError as error:
        if (refused := refused_name(str(error), body)) is not None:
            raise refused from error
        raise InputError(str(error), hint="correct that field; the description lists what there is") from error


def place_of(problem: Problem) -> str:
    """Return the name of the field that a problem is about; empty where it is about none of them."""
    found = _AT.search(problem.detail) or _BEGINS.match(problem.detail)
    place = found[1] if found is not None else _BY_CODE.get(problem.code, "")
    disk = _DISK.match(place)
    if disk is not None:
        what = {None: "size", "image.sha256": "sha256"}.get(disk[2], disk[2])
        return f"disk-{disk[1]}-{what}"
    if place == "disks":
        return "disk-0-size"
    return place if place in TypedVm.__struct_fields__ else ""


def _typed_disk(fields: Mapping[str, str], at: int) -> TypedDisk:
    parts = TypedDisk.__struct_fields__
    return TypedDisk(**{part: fields.get(f"disk-{at}-{part}", "").strip()[:_MOST_TEXT] for part in parts})


def _disk(typed: TypedDisk) -> dict[str, object]:
    disk: dict[str, object] = {"size": typed.size, "storage": typed.storage}
    if typed.image or typed.sha256:
        is_address = typed.image.startswith(("https://", "http://"))
        disk["image"] = {"url" if is_address else "path": typed.image, "sha256": typed.sha256}
    return disk
