"""The form that creates a VM: its fields as typed, and the REST request for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from hostler.control.schemas import Problem, VmCreate
from hostler.control.vms.names import find_name_error
from hostler.errors import InputError
from hostler.web.fields import pairs_of, whole_number

__all__ = ["MOST_DISKS", "DiskForm", "VmForm", "field_of_problem", "read_vm_form", "request_of"]

MOST_DISKS = 16
_MOST_TEXT = 1024
_LEAST_PRIORITY, _MOST_PRIORITY = -(2**31), 2**31 - 1
_AT = re.compile(r" - at `\$\.(?:spec\.)?([^`]+)`$")
_BEGINS = re.compile(r"([a-z_]+(?:\[\d+\])?(?:\.[a-z_0-9]+)*): ")
_DISK = re.compile(r"disks\[(\d+)\](?:\.(size|storage|image(?:\.sha256)?))?")
_BY_CODE = {"name_taken": "name", "invalid_strategy": "strategy", "not_found": "project", "forbidden": "project"}


class DiskForm(msgspec.Struct, frozen=True, kw_only=True):
    """One row of disks."""

    size: str = ""
    storage: str = ""
    image: str = ""
    sha256: str = ""


class VmForm(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form. A row of disks with empty fields is no disk."""

    name: str = ""
    project: str = "default"
    cpu: str = "2"
    memory: str = "4Gi"
    priority: str = "0"
    strategy: str = ""
    gang: str = ""
    labels: str = ""
    on_unplaceable: str = "wait"
    disks: tuple[DiskForm, ...] = (DiskForm(),)

    @property
    def with_another_disk(self) -> VmForm:
        """Return it with one more row to type into."""
        return msgspec.structs.replace(self, disks=(*self.disks, DiskForm())[:MOST_DISKS])

    @property
    def without_gaps(self) -> VmForm:
        """Return it without empty rows between those of disks, so that a row is where the request has its disk."""
        return msgspec.structs.replace(self, disks=tuple(one for one in self.disks if one != DiskForm()))


def read_vm_form(fields: Mapping[str, str], project: str = "default") -> VmForm:
    """Return the form with the fields that were sent, and defaults for the others."""
    default = VmForm(project=project)
    found = {
        name: fields.get(name, getattr(default, name)).strip()[:_MOST_TEXT]
        for name in default.__struct_fields__
        if name != "disks"
    }
    disks = tuple(_typed_disk(fields, at) for at in range(MOST_DISKS) if f"disk-{at}-size" in fields)
    return VmForm(**found, disks=disks or default.disks)


def request_of(typed: VmForm) -> VmCreate:
    """Return the REST request for the form; InputError names the field."""
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
        if (refused := find_name_error(str(error), body)) is not None:
            raise refused from error
        raise InputError(str(error), hint="correct that field; /docs lists the fields") from error


def field_of_problem(problem: Problem) -> str:
    """Return the name of the field that a problem is about, or an empty name."""
    found = _AT.search(problem.detail) or _BEGINS.match(problem.detail)
    place = found[1] if found is not None else _BY_CODE.get(problem.code, "")
    disk = _DISK.match(place)
    if disk is not None:
        what = {None: "size", "image.sha256": "sha256"}.get(disk[2], disk[2])
        return f"disk-{disk[1]}-{what}"
    if place == "disks":
        return "disk-0-size"
    return place if place in VmForm.__struct_fields__ else ""


def _typed_disk(fields: Mapping[str, str], at: int) -> DiskForm:
    parts = DiskForm.__struct_fields__
    return DiskForm(**{part: fields.get(f"disk-{at}-{part}", "").strip()[:_MOST_TEXT] for part in parts})


def _disk(typed: DiskForm) -> dict[str, object]:
    disk: dict[str, object] = {"size": typed.size, "storage": typed.storage}
    if typed.image or typed.sha256:
        is_address = typed.image.startswith(("https://", "http://"))
        disk["image"] = {"url" if is_address else "path": typed.image, "sha256": typed.sha256}
    return disk
