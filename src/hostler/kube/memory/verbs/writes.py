"""Creates, replaces, patches and deletions of the API server in memory, with the preconditions of the real one.

Deletions respect grace periods and finalizers.
"""

from __future__ import annotations

from typing import Any

from hostler.kube.memory.calls import ParsedCall, ResourceRoutes
from hostler.kube.memory.error_answers import (
    ErrorAnswer,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    modified,
    not_found,
    wrong_uid,
)
from hostler.kube.memory.kinds import ServedKind
from hostler.kube.memory.store import Key, ObjectStore, StoredObject
from hostler.kube.memory.verbs.admission import admit, fill_in
from hostler.kube.memory.verbs.patches import apply_patch

__all__ = ["create_object", "delete_object", "patch_object", "replace_object", "write_over"]

Json = dict[str, Any]


def delete_object(store: ObjectStore, kind: ServedKind, key: Key, options: Json) -> tuple[StoredObject, bool]:
    """Delete an object or start its deletion; return its last state and whether it is gone."""
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
    entry = store.put(kind, key, _with_deletion_mark(store, kind, entry.item, grace))
    if grace == 0 and not is_kept:
        return store.remove(kind, key), True
    return entry, False


def _check(kind: ServedKind, name: str, entry: StoredObject, wanted: Json) -> None:
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
    raise ErrorAnswer(409, "Conflict", f'Operation cannot be fulfilled on {typed} "{name}": {why}', details)


def _is_unbound_or_over(item: Json) -> bool:
    return not item["spec"].get("nodeName") or item["status"].get("phase") in ("Succeeded", "Failed")


def _grace(kind: ServedKind, item: Json, wanted: int | None) -> int:
    """Return the grace period; only pods have one, and only those that may be running."""
    if kind.plural != "pods" or _is_unbound_or_over(item):
        return 0
    grace = item["spec"].get("terminationGracePeriodSeconds", 30) if wanted is None else wanted
    return int(grace) if grace >= 0 else 1


def _with_deletion_mark(store: ObjectStore, kind: ServedKind, item: Json, grace: int) -> Json:
    old = item["metadata"]
    metadata = {**old, "deletionTimestamp": store.timestamp(grace), "deletionGracePeriodSeconds": grace}
    if "generation" in old and not old.get("deletionTimestamp"):
        metadata["generation"] = old["generation"] + 1
    if kind.plural == "namespaces":
        metadata.pop("deletionGracePeriodSeconds")
        return {**item, "metadata": metadata, "status": {"phase": "Terminating"}}
    return {**item, "metadata": metadata}


_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
# Fields in the spec of an existing pod that may change.
_LOOSE = ("containers", "initContainers", "tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds")
_LOOSE_WHILE_GATED = ("schedulingGates", "nodeSelector", "affinity")
_POD_RULE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def create_object(store: ObjectStore, routes: ResourceRoutes, call: ParsedCall) -> StoredObject:
    """Store a new object."""
    item = _body_of(call)
    given = item.get("metadata") or {}
    if call.kind.is_namespaced and given.get("namespace", call.namespace) != call.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if given.get("resourceVersion"):
        raise ErrorAnswer(500, "", "resourceVersion should not be set on objects to be created")
    name = given.get("name") or (given["generateName"] + store.new_ending() if given.get("generateName") else "")
    if not name:
        raise invalid(
            call.kind, "", "metadata.name", "FieldValueRequired", "Required value: name or generateName is required"
        )
    if call.kind.is_namespaced:
        _check_namespace(store, routes, call, name)
    metadata = {"name": name} | given | {"uid": store.new_uid(), "creationTimestamp": store.timestamp()}
    metadata |= {"namespace": call.namespace} if call.kind.is_namespaced else {}
    metadata |= {"generation": 1} if call.kind.has_generation or call.kind.is_custom else {}
    if call.kind.has_status and call.kind.plural not in ("nodes", "pods"):
        item.pop("status", None)  # set later, by its own subresource
    item = fill_in(store, call.kind, {**item, "metadata": metadata})
    item = admit(store, routes, call.kind, item, strict=True)
    key = (call.namespace, name)
    if key in store.entries(call.kind):
        raise already_exists(call.kind, name)
    return store.put(call.kind, key, item)


def _check_namespace(store: ObjectStore, routes: ResourceRoutes, call: ParsedCall, name: str) -> None:
    spaces = routes.find("namespaces")
    space = store.entries(spaces).get(("", call.namespace))
    if space is None:
        raise not_found(spaces, call.namespace)
    if space.item["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        raise forbidden(call.kind, name, why)


def _body_of(call: ParsedCall) -> Json:
    item = call.decoded()
    if not isinstance(item, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {call.kind.kind})")
    if item.get("kind", call.kind.kind) != call.kind.kind:
        raise bad_request(
            f'{call.kind.kind} in version "{call.kind.version}" cannot be handled as a {call.kind.kind}: the object '
            f"is a {item['kind']}"
        )
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def replace_object(store: ObjectStore, routes: ResourceRoutes, call: ParsedCall) -> tuple[StoredObject, bool]:
    """Replace an object or its status; return it and whether it is new."""
    item = _body_of(call)
    given = item.get("metadata") or {}
    if given.get("name", call.name) != call.name:
        raise bad_request(f"the name of the object ({given['name']}) does not match the name on the URL ({call.name})")
    key = (call.namespace, call.name)
    old = store.entries(call.kind).get(key)
    if old is None:
        if call.kind.may_create_by_put and not given.get("uid"):
            return create_object(store, routes, call), True
        raise not_found(call.kind, call.name)
    found = old.item["metadata"]
    if given.get("uid", found["uid"]) != found["uid"]:
        raise wrong_uid(call.kind, call.namespace, call.name, given["uid"], found["uid"])
    version = given.get("resourceVersion", "")
    if not version and (call.kind.needs_version or call.kind.is_custom):
        message = "Invalid value: 0: must be specified for an update"
        raise invalid(call.kind, call.name, "metadata.resourceVersion", "FieldValueInvalid", message)
    if version and version != found["resourceVersion"]:
        raise modified(call.kind, call.name)
    return _update(store, call, old, item), False


def patch_object(store: ObjectStore, call: ParsedCall) -> StoredObject:
    """Patch an object or its status; a version in the patch must be the object's."""
    key = (call.namespace, call.name)
    old = store.entries(call.kind).get(key)
    if old is None:
        raise not_found(call.kind, call.name)
    patch = call.decoded()
    item = apply_patch(old.item, call.content_type, patch)
    item = {name: value for name, value in item.items() if name not in ("kind", "apiVersion")}
    found, given = old.item["metadata"], item.get("metadata") or {}
    if given.get("uid") != found["uid"]:
        message = f'Invalid value: "{given.get("uid", "")}": field is immutable'
        raise invalid(call.kind, call.name, "metadata.uid", "FieldValueInvalid", message)
    if given.get("resourceVersion") != found["resourceVersion"] and given.get("resourceVersion"):
        raise modified(call.kind, call.name)
    return _update(store, call, old, item)


def _update(store: ObjectStore, call: ParsedCall, old: StoredObject, item: Json) -> StoredObject:
    """Keep fields that the request may not change, validate the rest, and write the object if it differs."""
    found = old.item["metadata"]
    metadata = {key: value for key, value in (item.get("metadata") or {}).items() if key not in _FIXED}
    metadata = {key: found[key] for key in _FIXED if key in found} | metadata
    metadata["resourceVersion"] = found["resourceVersion"]
    if "generation" in found:
        metadata["generation"] = found["generation"]
    if call.part == "status":
        new = {**old.item, "metadata": found if call.kind.is_custom else metadata}
        if "status" in item:
            new["status"] = item["status"]
    else:
        new = {**item, "metadata": metadata}
        if call.kind.has_status:
            new.pop("status", None)
            new |= {"status": old.item["status"]} if "status" in old.item else {}
        new = _check_update(call, old.item, new)
    return write_over(store, call.kind, (call.namespace, call.name), new)


def _check_update(call: ParsedCall, old: Json, new: Json) -> Json:
    before, after = old.get("spec"), new.get("spec")
    if before == after:
        return new
    if call.kind.plural == "pods" and isinstance(before, dict) and isinstance(after, dict):
        loose = set(_LOOSE) | (set(_LOOSE_WHILE_GATED) if before.get("schedulingGates") else set())
        is_fixed = any(before.get(key) != after.get(key) for key in (before.keys() | after.keys()) - loose)
        if is_fixed or _lost_entries(before, after, "tolerations") or _lost_entries(after, before, "schedulingGates"):
            raise invalid(call.kind, call.name, "spec", "FieldValueForbidden", _POD_RULE)
    if "generation" in old["metadata"]:
        new = {**new, "metadata": {**new["metadata"], "generation": old["metadata"]["generation"] + 1}}
    return new


def _lost_entries(before: Json, after: Json, field: str) -> bool:
    """Return whether a list lost entries."""
    kept = after.get(field) or ()
    return any(entry not in kept for entry in before.get(field) or ())


def write_over(store: ObjectStore, kind: ServedKind, key: Key, item: Json) -> StoredObject:
    """Write an existing object. An equal one is not written; one that waited only for this is deleted."""
    old = store.entries(kind)[key]
    metadata = item["metadata"]
    if not metadata.get("finalizers", True):
        metadata = {name: value for name, value in metadata.items() if name != "finalizers"}
        item = {**item, "metadata": metadata}
    if item == old.item:
        return old
    is_over = metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds") == 0
    if is_over and not metadata.get("finalizers"):
        store.remove(kind, key, item)
        return StoredObject(
            item, old.version
        )  # the response shows the requested state, under the version before the deletion
    return store.put(kind, key, item)
