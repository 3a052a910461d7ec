"""The three kinds of patches. Each returns a new object and leaves the old one unchanged."""

from __future__ import annotations

import copy
from typing import Any

from hostler.kube.memory.error_answers import ErrorAnswer, bad_request, unprocessable

__all__ = ["apply_patch"]

Json = dict[str, Any]

# Lists whose entries a strategic merge patch finds by a key; all other lists are replaced.
_KEYS = {
    "conditions": "type",
    "ownerReferences": "uid",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "addresses": "type",
    "containerStatuses": None,
    "taints": None,
    "tolerations": None,
}
_SETS = ("finalizers",)  # lists of strings to which a strategic merge patch adds


def apply_patch(item: Json, content_type: str, patch: Any) -> Json:  # noqa: ANN401 - JSON
    """Return the patched object."""
    match content_type.split(";")[0].strip():
        case "application/merge-patch+json":
            result = _merge(item, patch)
        case "application/strategic-merge-patch+json":
            result = _strategic(item, patch)
        case "application/json-patch+json":
            result = _json_patch(item, patch)
        case other:
            raise ErrorAnswer(
                415,
                "UnsupportedMediaType",
                f"the body of the request was in an unknown format - accepted media types include: {other}",
            )
    if not isinstance(result, dict):
        raise bad_request("a patch must leave an object")
    return result


def _merge(old: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def _strategic(old: Any, patch: Any, key: str = "") -> Any:  # noqa: ANN401 - JSON
    if isinstance(patch, list):
        return _strategic_list(old, patch, key)
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            place = name.split("/", 1)[1]
            result[place] = [word for word in result.get(place) or () if word not in value]
        elif name.startswith("$"):
            continue  # the order of a list's entries: not supported
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = _strategic(result.get(name), value, name)
    return result


def _strategic_list(old: Any, patch: list[Any], name: str) -> list[Any]:  # noqa: ANN401 - JSON
    if name in _SETS and isinstance(old, list):
        return old + [word for word in patch if word not in old]
    key = _KEYS.get(name)
    if key is None or not isinstance(old, list):
        return [entry for entry in patch if not (isinstance(entry, dict) and entry.get("$patch") == "delete")]
    result = list(old)
    for entry in patch:
        place = next((at for at, known in enumerate(result) if known.get(key) == entry.get(key)), None)
        if entry.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(entry)
        else:
            result[place] = _strategic(result[place], entry)
    return result


def _json_patch(item: Json, patch: Any) -> Json:  # noqa: ANN401 - JSON
    if not isinstance(patch, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    result = copy.deepcopy(item)
    for step in patch:
        words = [word.replace("~1", "/").replace("~0", "~") for word in step["path"].split("/")[1:]]
        try:
            place: Any = result
            for word in words[:-1]:
                place = place[int(word)] if isinstance(place, list) else place[word]
            _apply_step(place, words[-1], step)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise unprocessable() from error
    return result


def _apply_step(place: Any, word: str, step: Json) -> None:  # noqa: ANN401 - JSON
    if isinstance(place, list):
        at = len(place) if word == "-" else int(word)
        if step["op"] == "add":
            if at > len(place):
                raise IndexError(at)
            place.insert(at, step["value"])
            return
        index: Any = at
    else:
        index = word
    match step["op"]:
        case "add":
            place[index] = step["value"]
        case "replace":
            place[index]  # must exist
            place[index] = step["value"]
        case "remove":
            del place[index]
        case "test":
            if place[index] != step.get("value"):
                raise ValueError(word)
        case other:
            raise ValueError(other)
