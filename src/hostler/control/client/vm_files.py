"""VMs from files and options, as create requests.

A document is a spec, or a whole request with name and spec; YAML or JSON. Options override the file. Invalid input is
rejected here, with its location, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hostler.config import Document, convert, read_documents, with_folder_files
from hostler.control.schemas import VmCreate
from hostler.control.vms.names import check_name
from hostler.control.vms.spec import VmSpec, check_vm_spec
from hostler.errors import InputError

__all__ = ["read_vm_requests", "read_vm_spec"]

_HEADS = ("apiVersion", "kind")


def read_vm_spec(fields: dict[str, Any], place: str = "the options") -> VmSpec:
    """Return the spec of these fields."""
    for needed in ("cpu", "memory"):
        if needed not in fields:
            raise InputError(f"a VM needs {needed}", hint=f"give --{needed}, or a file with -f")
    return check_vm_spec(convert(Document(fields, place), fields, VmSpec))


def read_vm_requests(
    files: Sequence[str], name: str, fields: dict[str, Any], project: str, count: int
) -> list[VmCreate]:
    """Return the VMs of files and options; options override the file.

    A document is a spec, or a whole request with name and spec. Without files there are only the options.
    """
    if not files:
        if not name:
            raise InputError("the VM needs a name", hint="hostler vm create NAME …")
        _check_no_project(name)
        check_name("the VM's name", name)
        found = [VmCreate(name=name, project=project, spec=read_vm_spec(fields))]
    else:
        documents = read_documents(with_folder_files(files))
        found = [_request(document, name, fields, project, len(documents)) for document in documents]
    if not found:
        raise InputError("the files describe no VM", hint="write a mapping with name and spec")
    if count == 1:
        return found

    numbered = [(request, number) for request in found for number in range(count)]
    return [msgspec.structs.replace(request, name=f"{request.name}-{number}") for request, number in numbered]


def _check_no_project(name: str) -> None:
    """Reject PROJECT/NAME, which other commands accept, with a hint to the option for the project."""
    project, slash, word = name.partition("/")
    if slash:
        hint = f"name the project by its option: {word} -p {project}"
        raise InputError(f"{name[:80]!r} is not a name for a new VM", hint=hint)


def _request(document: Document, name: str, fields: dict[str, Any], project: str, documents: int) -> VmCreate:

    data: Any = document.data
    if not isinstance(data, dict):
        raise InputError(f"{document.where()}: this is no VM", hint="write a mapping with name and spec")
    data = {key: value for key, value in data.items() if key not in _HEADS}
    if "spec" not in data:
        data = {"spec": data}
    if name:
        if documents > 1:
            raise InputError(f"{name!r} cannot name {documents} VMs", hint="leave it out, and name them in the file")
        _check_no_project(name)
        data["name"] = name
    if "name" not in data:
        raise InputError(f"{document.where()}: the VM has no name", hint="write name: … beside spec, or give NAME")
    spec = data["spec"]
    if isinstance(spec, dict) and fields:
        data["spec"] = {**spec, **fields}
    data.setdefault("project", project)
    for key in ("name", "project"):
        if isinstance(data[key], str):  # another type is reported below
            check_name(f"{document.where((key,))}: {key}", data[key])
    found = convert(document, data, VmCreate)
    spec = check_vm_spec(convert(document, data["spec"], VmSpec))

    return msgspec.structs.replace(found, spec=spec)
