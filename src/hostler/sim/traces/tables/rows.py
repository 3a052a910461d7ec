"""One row of a table to a spec, a gang or a host; called for distinct rows only.

What has no column of its own stands in ``more``: JSON with fields of the model, as a journal writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from hostler.config import did_you_mean, quote
from hostler.errors import InputError
from hostler.model import (
    CPU,
    GUESTS,
    MEMORY,
    STORAGE,
    WHOLE_DEVICE,
    Amounts,
    Device,
    DeviceRequest,
    Gang,
    GuestSpec,
    Host,
    Labels,
    amounts,
    labels,
    parse_quantity,
    parse_resource,
)
from hostler.model.hosts import MAX_DEVICES

__all__ = ["gang_of_row", "host_of_row", "spec_of_row"]

Row = Mapping[str, object]
T = TypeVar("T", GuestSpec, Gang, Host)

_MOST_PRIORITY = 2**31 - 1
_AMOUNTS = (CPU, MEMORY, STORAGE)


def spec_of_row(row: Row, where: str) -> GuestSpec:
    """Return what the guests of a row ask for."""
    try:
        more = _more(row, GuestSpec, {})
        own = {
            "requests": _amounts(row, more.requests),
            "devices": _gpus(row) or more.devices,
            "priority": _whole(row, "priority", -_MOST_PRIORITY, _MOST_PRIORITY, more.priority),
            "tenant": _text(row, "tenant") or more.tenant,
            "namespace": _text(row, "namespace") or more.namespace,
            "labels": _labels(row) or more.labels,
        }
        for device in more.devices:
            _check_device(device.count, device.milli)
    except InputError as error:
        raise type(error)(f"{where}: {error.message}", hint=error.hint) from None
    return msgspec.structs.replace(more, **own)


def gang_of_row(row: Row, members: int, where: str) -> Gang | None:
    """Return the gang of a row's guests; all members are needed unless ``gang_min`` says otherwise."""
    text = _text(row, "gang")
    if not text:
        return None
    namespace, _, name = text.rpartition("/")
    try:
        more = _more(row, Gang, {"name": name}, "gang_more")
        min_count = _whole(row, "gang_min", 1, 2**31, members)
    except InputError as error:
        raise type(error)(f"{where}: {error.message}", hint=error.hint) from None
    own = namespace or str(row["namespace"])
    return msgspec.structs.replace(more, name=name, namespace=own, min_count=min_count)


def host_of_row(row: Row, where: str) -> Host:
    """Return the host of a row."""
    name = _text(row, "name")
    try:
        if not name:
            raise InputError("the host has no name", hint="name all hosts")
        more = _more(row, Host, {"name": name})
        count = _whole(row, "gpus", 0, MAX_DEVICES, 0)
        guests = _whole(row, "guests", 0, 2**31, -1)
        capacity = _amounts(row, more.capacity)
        if guests >= 0:
            capacity = tuple(sorted((*capacity, (GUESTS, guests))))  # a limit of zero counts
        return msgspec.structs.replace(
            more,
            name=name,
            uid=more.uid or name,
            capacity=capacity,
            devices=(Device("gpu", _text(row, "gpu_model")),) * count or more.devices,
            labels=_labels(row) or more.labels,
            rank=_whole(row, "rank", 0, 2**31, more.rank),
        )
    except InputError as error:
        raise type(error)(f"{where}: {error.message}", hint=error.hint) from None


def _more(row: Row, kind: type[T], required: Mapping[str, object], column: str = "more") -> T:
    """Read the fields that have no column of their own."""
    text = _text(row, column)
    try:
        fields = msgspec.json.decode(text, type=dict[str, object]) if text else {}
        for name in fields:
            if name not in kind.__struct_fields__:
                hint = did_you_mean(name, kind.__struct_fields__)
                raise InputError(f"{column}: there is no field {quote(name)}", hint=hint)
        return msgspec.convert({**fields, **required}, kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InputError(f"{column}: {error}", hint="JSON with fields of the model, as a journal writes them") from None


def _amounts(row: Row, more: Amounts) -> Amounts:
    own = {name: _quantity(row, name) for name in _AMOUNTS if not _is_empty(row.get(name))}
    return amounts({**dict(more), **own}) if own else amounts(dict(more))


def _quantity(row: Row, name: str) -> int:
    value = row[name]
    if not isinstance(value, str | int | float):
        raise InputError(f"{name} is no amount", hint='write it as 2, "1500m" or "2Gi"')
    try:
        return parse_resource(name, value)
    except InputError as error:
        raise type(error)(f"{name}: {error.message}", hint=error.hint) from None


def _gpus(row: Row) -> tuple[DeviceRequest, ...]:
    count = _whole(row, "gpus", 0, MAX_DEVICES, -1)
    milli = _whole(row, "gpu_milli", 0, WHOLE_DEVICE, WHOLE_DEVICE)
    if count < 0:  # a part of a gpu needs no count
        count = 0 if _is_empty(row.get("gpu_milli")) else 1
    if not count or not milli:
        return ()
    models = row.get("gpu_models")
    names = models if isinstance(models, list) else _text(row, "gpu_models").split("|")
    return (DeviceRequest("gpu", count, milli, tuple(str(name) for name in names if name)),)


def _check_device(count: int, milli: int) -> None:
    if not 1 <= count <= MAX_DEVICES or not 1 <= milli <= WHOLE_DEVICE:
        raise InputError(
            f"more: {count} devices with {milli} milli of each cannot be", hint="1 to 64 devices, 1 to 1000 milli"
        )


def _whole(row: Row, name: str, least: int, most: int, empty: int) -> int:
    value = row.get(name)
    if _is_empty(value):
        return empty
    try:
        sign = -1 if str(value).startswith("-") else 1
        number = sign * parse_quantity(str(value).removeprefix("-"))
        is_whole = float(str(value)) == number
    except (ValueError, InputError):
        is_whole, number = False, 0
    if not is_whole or not least <= number <= most:
        raise InputError(
            f"{name} is {quote(str(value))}, not a whole number from {least} to {most}", hint="write a plain number"
        )
    return number


def _labels(row: Row) -> Labels:
    text = _text(row, "labels")
    if not text:
        return ()
    if text.startswith("{"):
        try:
            return labels(msgspec.json.decode(text, type=dict[str, str]))
        except msgspec.MsgspecError as error:
            raise InputError(f"labels: {error}", hint='write {"key": "value"} or key=value,key=value') from None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(key and equals for key, equals, _ in pairs):
        raise InputError(
            f"labels: {quote(text)} has a part without '='", hint='write key=value,key=value or {"key": "value"}'
        )
    return labels({key.strip(): value.strip() for key, _, value in pairs})


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value)


def _is_empty(value: object) -> bool:
    return value is None or value == ""
