"""What somebody types to ask where VMs would go, and the question that REST would be asked. Pure.

Every field is read by itself, so that whoever mistyped two is told of both at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from hostler.control.api.shapes import PlanAsked, PlanVm
from hostler.control.vms.spec import VmSpec, checked
from hostler.control.vms.units import guess
from hostler.errors import HostlerError, InputError, QuantityError
from hostler.model.resources import CPU, MEMORY, STORAGE, parse_resource
from hostler.web.fields import pairs_of, whole_number

__all__ = ["TITLES", "Asked", "place_of", "read"]

_MOST = 200
_SMALL = {"cpu": "1", "memory": "1Gi"}  # what a field stands beside that is looked at alone
TITLES = {
    "cpu": "CPU",
    "memory": "Memory",
    "disk": "Disk on its host",
    "count": "How many",
    "project": "Project",
    "priority": "Priority",
    "strategy": "Strategy",
    "host_name": "Only on host",
    "selector": "Only hosts with labels",
    "without": "Without these hosts",
}
_HINTS = {
    "cpu": (CPU, "write processors, such as 2 or 500m"),
    "memory": (MEMORY, "write it as 4Gi or 512Mi"),
    "disk": (STORAGE, "write it as 20Gi, or nothing for none"),
}
_BY_WORD = {"without_hosts": "without", "host_selector": "selector", "disks[0].size": "disk"}
_BY_CODE = {"invalid_strategy": "strategy", "forbidden": "project"}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the form, as they were typed."""

    cpu: str = "2"
    memory: str = "4Gi"
    disk: str = ""
    count: str = "1"
    project: str = "default"
    priority: str = "0"
    strategy: str = ""
    host_name: str = ""
    selector: str = ""
    without: str = ""


def read(asked: Asked) -> tuple[PlanAsked | None, dict[str, HostlerError]]:
    """Return the question that REST would be asked, or what is wrong with which field."""
    spec: dict[str, object] = {}
    wrong: dict[str, HostlerError] = {}
    for name, part in _PARTS.items():
        try:
            found = part(getattr(asked, name))
            _spec({**_SMALL, **found})
            spec |= found
        except InputError as error:
            wrong[name] = _with_own_hint(name, getattr(asked, name), error)
    try:
        count = whole_number("how many", asked.count, 1, _MOST)
    except InputError as error:
        wrong["count"] = error
    if wrong:
        return None, wrong
    vm = PlanVm(spec=_spec(spec), project=asked.project, count=count)
    return PlanAsked(vms=[vm], without_hosts=[one for one in map(str.strip, asked.without.split(",")) if one]), {}


def place_of(error: HostlerError) -> str:
    """Return the field that a refusal of the whole question is about; empty where it is about none of them."""
    word = error.message.partition(":")[0]
    place = _BY_WORD.get(word, word)
    return place if place in TITLES else _BY_CODE.get(error.code, "")


def _spec(values: Mapping[str, object]) -> VmSpec:
    try:
        return checked(msgspec.convert(values, VmSpec))
    except msgspec.ValidationError as error:
        raise InputError(str(error), hint="correct that field; the description lists what there is") from error


def _with_own_hint(name: str, text: str, error: HostlerError) -> HostlerError:
    """Return a refusal of something that is no amount at all with a hint for this kind of amount only."""
    resource, hint = _HINTS.get(name, ("", ""))
    try:
        if resource:
            parse_resource(resource, text)
    except QuantityError:
        return QuantityError(error.message, hint=f"{guess(resource, text)}{hint}")
    return error


_PARTS: dict[str, Callable[[str], dict[str, object]]] = {
    "cpu": lambda text: {"cpu": text},
    "memory": lambda text: {"memory": text},
    "disk": lambda text: {"disks": [{"size": text}] if text else []},
    "priority": lambda text: {"priority": whole_number("priority", text, -(2**31), 2**31 - 1)},
    "strategy": lambda text: {"strategy": text},
    "host_name": lambda text: {"host_name": text},
    "selector": lambda text: {"host_selector": pairs_of("labels", text)},
}
