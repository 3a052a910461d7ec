"""A workload to our own tables, such that reading them gives the same workload again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hostler.model import CPU, GUESTS, MEMORY, STORAGE, Amounts, Device, GuestSpec, Host, amount_of, format_resource
from hostler.sim.traces.tables.files import require_polars
from hostler.sim.workload import FOREVER, Ints, Workload

if TYPE_CHECKING:
    import polars as pl

__all__ = ["guest_table", "host_table", "seconds_text"]

_AMOUNTS = (CPU, MEMORY, STORAGE)
_SPEC_IN_COLUMNS = ("requests", "devices", "priority", "tenant", "namespace", "labels")
_HOST_IN_COLUMNS = ("name", "capacity", "devices", "labels", "rank")
_GANG_IN_COLUMNS = ("name", "namespace", "min_count")


def guest_table(workload: Workload, *, is_text: bool) -> pl.DataFrame:
    """Return the guests as a table; as text, times are decimals, else they are durations of polars."""
    require_polars()
    import polars as pl

    kinds = pl.DataFrame([_spec_row(spec) for spec in workload.specs], infer_schema_length=None)
    columns = [pl.Series("name", list(workload.names), dtype=pl.String)]
    columns.append(_times("arrival", workload.arrives_ns, is_text))
    if (workload.runs_ns != FOREVER).any():
        columns.append(_times("duration", workload.runs_ns, is_text))
    columns += kinds[workload.spec_of].get_columns() if len(workload) else kinds.clear().get_columns()
    if len(workload.gang_of):
        gangs = [_gang_row(workload, number) for number in range(len(workload.gangs))]
        rows = [gangs[number] if number >= 0 else {} for number in workload.gang_of.tolist()]
        schema = dict.fromkeys(("gang", "gang_min", "gang_more"), pl.String)
        columns += pl.DataFrame(rows, schema=schema).get_columns()
    always = {"name", "arrival", "duration", "cpu", "memory"}
    return pl.DataFrame([column for column in columns if column.name in always or column.drop_nulls().len()])


def host_table(hosts: Sequence[Host]) -> pl.DataFrame:
    """Return hosts as a table."""
    require_polars()
    import polars as pl

    table = pl.DataFrame([_host_row(host) for host in hosts], infer_schema_length=None)
    return table.select(column for column in table.get_columns() if column.drop_nulls().len())


def seconds_text(times: Ints) -> list[str | None]:
    """Write nanoseconds as decimal seconds, exactly; nothing for FOREVER."""
    whole, part = np.divmod(times, 10**9)
    return [
        None if time == FOREVER else f"{seconds}.{rest:09d}".rstrip("0") if rest else str(seconds)
        for time, seconds, rest in zip(times.tolist(), whole.tolist(), part.tolist(), strict=True)
    ]


def _times(name: str, times: Ints, is_text: bool) -> pl.Series:
    import polars as pl

    if is_text:
        return pl.Series(name, seconds_text(times), dtype=pl.String)
    found = pl.Series(name, times, dtype=pl.Int64).cast(pl.Duration("ns"))
    return pl.select(pl.when(pl.Series(times == FOREVER)).then(None).otherwise(found).alias(name)).to_series()


def _spec_row(spec: GuestSpec) -> dict[str, str | None]:
    gpus = spec.devices[0] if len(spec.devices) == 1 and spec.devices[0].kind == "gpu" else None
    if gpus is not None and any("|" in model or not model for model in gpus.models):
        gpus = None
    left = [(name, amount) for name, amount in spec.requests if name not in _AMOUNTS]
    more = _rest(spec, _SPEC_IN_COLUMNS)
    if left:
        more["requests"] = left
    if spec.devices and gpus is None:
        more["devices"] = msgspec.to_builtins(spec.devices)
    return {
        **_amount_cells(spec.requests),
        "gpus": str(gpus.count) if gpus else None,
        "gpu_milli": str(gpus.milli) if gpus else None,
        "gpu_models": "|".join(gpus.models) or None if gpus else None,
        "priority": str(spec.priority) if spec.priority else None,
        "tenant": spec.tenant or None,
        "namespace": spec.namespace if spec.namespace != "default" else None,
        "labels": _json(dict(spec.labels)),
        "more": _json(more),
    }


def _host_row(host: Host) -> dict[str, str | None]:
    first = host.devices[0] if host.devices else None
    is_plain = first is not None and all(device == Device("gpu", first.model) for device in host.devices)
    more = _rest(host, _HOST_IN_COLUMNS)
    if host.uid == host.name:
        more.pop("uid", None)
    left = [(name, amount) for name, amount in host.capacity if name not in (*_AMOUNTS, GUESTS)]
    if left:
        more["capacity"] = left
    if host.devices and not is_plain:
        more["devices"] = msgspec.to_builtins(host.devices)
    has_limit = any(name == GUESTS for name, _ in host.capacity)
    return {
        "name": host.name,
        **_amount_cells(host.capacity),
        "guests": str(amount_of(host.capacity, GUESTS)) if has_limit else None,
        "gpus": str(len(host.devices)) if is_plain else None,
        "gpu_model": first.model or None if first is not None and is_plain else None,
        "labels": _json(dict(host.labels)),
        "rank": str(host.rank) if host.rank else None,
        "more": _json(more),
    }


def _gang_row(workload: Workload, number: int) -> dict[str, str | None]:
    gang = workload.gangs[number]
    more = _rest(gang, _GANG_IN_COLUMNS)
    return {"gang": gang.key, "gang_min": str(gang.min_count), "gang_more": _json(more)}


def _amount_cells(values: Amounts) -> dict[str, str | None]:
    found = {name: amount_of(values, name) for name in _AMOUNTS}
    return {name: format_resource(name, amount) if amount else None for name, amount in found.items()}


def _rest(value: msgspec.Struct, in_columns: Sequence[str]) -> dict[str, object]:
    """Return the fields that have no column and are not as usual."""
    fields: dict[str, object] = msgspec.to_builtins(value)
    return {name: field for name, field in fields.items() if name not in in_columns}


def _json(value: dict[str, object] | dict[str, str]) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
