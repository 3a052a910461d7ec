"""A workload to files: our tables, a fleet, or Kubernetes manifests with the annotations of the openb simulator."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import msgspec

from hostler.config import write_fleet, write_yaml
from hostler.config.documents import MAX_YAML_BYTES
from hostler.errors import InputError
from hostler.manifests import guest_to_pod, host_to_node
from hostler.model import Gang, Guest, Tenancy
from hostler.sim.traces.kubernetes import CREATION_TIME, DELETION_TIME
from hostler.sim.traces.tables.output import guest_table, host_table
from hostler.sim.workload import FOREVER, Workload

__all__ = ["fleet_bytes", "guests_of", "kubernetes_bytes", "table_bytes"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_SECOND_NS = 10**9
_LAST_SECOND = 253_402_300_799  # of the year 9999


def table_bytes(workload: Workload, *, is_parquet: bool) -> tuple[bytes, bytes]:
    """Return the table of guests and the table of hosts, as CSV or Parquet."""
    import io

    found: list[bytes] = []
    for table in (guest_table(workload, is_text=not is_parquet), host_table(workload.hosts)):
        stream = io.BytesIO()
        if is_parquet:
            table.write_parquet(stream)
        else:
            table.write_csv(stream)
        found.append(stream.getvalue())
    return found[0], found[1]


def guests_of(workload: Workload) -> Iterator[Guest]:
    """Yield the guests of a workload."""
    gang_of = workload.gang_of.tolist() if len(workload.gang_of) else [-1] * len(workload)
    for name, number, gang in zip(workload.names, workload.spec_of.tolist(), gang_of, strict=True):
        spec = workload.specs[number]
        key = workload.gangs[gang].key if gang >= 0 else ""
        yield Guest(name=name, uid=f"{spec.namespace}/{name}", spec=spec, gang=key)


def fleet_bytes(workload: Workload, *, is_json: bool) -> bytes:
    """Return hosts, guests and gangs as a fleet; it has no times."""
    return _text([write_fleet(workload.hosts, guests_of(workload), tenancy=Tenancy(gangs=workload.gangs))], is_json)


def kubernetes_bytes(workload: Workload, *, is_json: bool) -> bytes:
    """Return nodes and pods, with the times as annotations, as YAML documents or one JSON list."""
    objects: list[dict[str, object]] = [host_to_node(host) for host in workload.hosts]
    objects += [_pod_group(gang) for gang in workload.gangs]
    times = zip(workload.arrives_ns.tolist(), workload.runs_ns.tolist(), strict=True)
    for guest, (arrives, runs) in zip(guests_of(workload), times, strict=True):
        pod = guest_to_pod(msgspec.structs.replace(guest, uid=""))
        metadata = pod["metadata"]
        assert isinstance(metadata, dict)
        annotations = {**metadata.get("annotations", {}), CREATION_TIME: _moment(arrives)}
        if runs != FOREVER:
            annotations[DELETION_TIME] = _moment(arrives + runs)
        metadata["annotations"] = annotations
        objects.append(pod)
    return _text([{"apiVersion": "v1", "kind": "List", "items": objects}] if is_json else objects, is_json)


def _text(documents: list[dict[str, object]], is_json: bool) -> bytes:
    if is_json:
        return msgspec.json.format(msgspec.json.encode(documents[0]), indent=1) + b"\n"
    content = "---\n".join(write_yaml(document) for document in documents).encode()
    if len(content) > MAX_YAML_BYTES:
        raise InputError(
            f"{len(content) >> 20} MiB are more than the {MAX_YAML_BYTES >> 20} MiB that are read as YAML",
            hint="name a file that ends in .json",
        )
    return content


def _pod_group(gang: Gang) -> dict[str, object]:
    spec: dict[str, object] = {"schedulingPolicy": {"gang": {"minCount": gang.min_count}}}
    if gang.topology:
        spec["schedulingConstraints"] = {"topology": [{"key": gang.topology}]}
    if gang.disruption == "all":
        spec["disruptionMode"] = {"all": {}}
    if gang.priority is not None:
        spec["priority"] = gang.priority
    metadata = {"name": gang.name, "namespace": gang.namespace}
    return {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def _moment(time_ns: int) -> str:
    """Write a time as RFC 3339 does, exactly; times that began at 0 fall into 1970."""
    seconds, part = divmod(time_ns, _SECOND_NS)
    if not 0 <= seconds <= _LAST_SECOND:
        raise InputError(f"the time {seconds} s cannot be written as a date", hint="write a table instead")
    text = (_EPOCH + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{part:09d}".rstrip("0") if part else ""
    return f"{text}{fraction}Z"
