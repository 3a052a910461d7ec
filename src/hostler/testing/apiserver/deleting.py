"""Deletion in the API server in memory: preconditions, grace periods, finalizers."""

from __future__ import annotations

from typing import Any

from hostler.testing.apiserver.kinds import Kind
from hostler.testing.apiserver.refusals import Refusal, not_found
from hostler.testing.apiserver.store import Entry, Key, Store

__all__ = ["delete_object"]

Json = dict[str, Any]


def delete_object(store: Store, kind: Kind, key: Key, options: Json) -> tuple[Entry, bool]:
    """Delete an object or begin to; returns its last state and whether it is gone."""
    entry = store.entries(kind).get(key)
    if entry is None:
        raise not_found(kind, key[1])
    _check(kind, key[1], entry, options.get("preconditions") or {})
    metadata = entry.item["metadata"]
    grace = _grace(kind, entry.item, options.get("gracePeriodSeconds"))
    if metadata.get("deletionTimestamp"):
        known = metadata.get("deletionGracePeriodSeconds", 0)
        if options.get("gracePeriodSeconds") is None and kind.plural == "pods" and known > 0:
            grace = min(grace, known) if _is_unbound_or_over(entry.item) else known
        if known <= grace and (known > 0 or metadata.get("finalizers") or kind.plural == "namespaces"):
            return entry, False
    is_kept = bool(metadata.get("finalizers")) or kind.plural == "namespaces"
    if kind.plural != "pods" and not is_kept:
        return store.remove(kind, key), True
    entry = store.put(kind, key, _marked(store, kind, entry.item, grace))
    if grace == 0 and not is_kept:
        return store.remove(kind, key), True
    return entry, False


def _check(kind: Kind, name: str, entry: Entry, wanted: Json) -> None:
    metadata = entry.item["metadata"]
    typed = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    details = {"name": name} | ({"group": kind.group} if kind.group else {}) | {"kind": kind.kind}
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid is not None and uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
    elif version is not None and version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
    else:
        return
    raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on {typed} "{name}": {why}', details)


def _is_unbound_or_over(item: Json) -> bool:
    return not item["spec"].get("nodeName") or item["status"].get("phase") in ("Succeeded", "Failed")


def _grace(kind: Kind, item: Json, wanted: int | None) -> int:
    """Only pods have time to end, and only those that may run somewhere."""
    if kind.plural != "pods" or _is_unbound_or_over(item):
        return 0
    grace = item["spec"].get("terminationGracePeriodSeconds", 30) if wanted is None else wanted
    return int(grace) if grace >= 0 else 1


def _marked(store: Store, kind: Kind, item: Json, grace: int) -> Json:
    old = item["metadata"]
    metadata = {**old, "deletionTimestamp": store.timestamp(grace), "deletionGracePeriodSeconds": grace}
    if "generation" in old and not old.get("deletionTimestamp"):
        metadata["generation"] = old["generation"] + 1
    if kind.plural == "namespaces":
        metadata.pop("deletionGracePeriodSeconds")
        return {**item, "metadata": metadata, "status": {"phase": "Terminating"}}
    return {**item, "metadata": metadata}
