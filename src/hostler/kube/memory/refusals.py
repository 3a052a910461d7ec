"""What the API server in memory says when it refuses: Status objects in the words of the real one."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.kube.memory.kinds import Kind

__all__ = [
    "Refusal",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "invalid",
    "modified",
    "no_resource",
    "not_allowed",
    "not_found",
    "success",
    "timed_out",
    "unprocessable",
    "wrong_uid",
]


class Refusal(Exception):
    """An answer that is no success; ``body`` is its Status, or plain text where the real one sends that."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        retry_after_s: int = 0,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = {"content-type": "application/json"}
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": metadata or {}}
        status |= {"status": "Failure", "message": message}
        if reason:
            status["reason"] = reason
        if details is not None:
            status["details"] = details
        if retry_after_s:
            self.headers["retry-after"] = str(retry_after_s)
            status.setdefault("details", {})["retryAfterSeconds"] = retry_after_s
        status["code"] = code
        self.status = status

    @property
    def body(self) -> bytes:
        """Return what is sent."""
        return msgspec.json.encode(self.status)


def success(code: int, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the Status of something done that has no object to show."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | ({"details": details} if details else {"code": code})


def _details(kind: Kind, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return details | {"kind": kind.plural}


def not_found(kind: Kind, name: str) -> Refusal:
    """No object of that name."""
    return Refusal(404, "NotFound", f'{kind.full_name} "{name}" not found', _details(kind, name))


def no_resource() -> Refusal:
    """The group and version exist, the resource does not."""
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> Refusal:
    """An object of that name exists."""
    return Refusal(409, "AlreadyExists", f'{kind.full_name} "{name}" already exists', _details(kind, name))


def conflict(kind: Kind, name: str, why: str, part: str = "") -> Refusal:
    """The object is not what the request took it for."""
    ending = f"/{part}" if part else ""
    details = _details(kind, name) | {"kind": kind.plural + ending}
    message = f'Operation cannot be fulfilled on {kind.full_name}{ending} "{name}": {why}'
    return Refusal(409, "Conflict", message, details)


def modified(kind: Kind, name: str) -> Refusal:
    """Somebody wrote it since the version that the request names."""
    return conflict(
        kind, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def wrong_uid(kind: Kind, namespace: str, name: str, wanted: str, found: str) -> Refusal:
    """Another object lives under the same name, as storage says it."""
    key = "/".join(word for word in (kind.plural, namespace, name) if word)
    return conflict(
        kind,
        name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
    )


def bad_request(message: str) -> Refusal:
    """A request that makes no sense."""
    return Refusal(400, "BadRequest", message)


def not_allowed() -> Refusal:
    """A method that the path does not know."""
    return Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unprocessable() -> Refusal:
    """A JSON patch that does not apply."""
    return Refusal(422, "Invalid", "the server rejected our request due to an error in our request", {})


def invalid(kind: Kind, name: str, field: str, word: str, message: str) -> Refusal:
    """An object that breaks a rule of its kind; ``word`` is the rule's reason, such as FieldValueInvalid."""
    title = kind.full_name if kind.needs_version and field == "metadata.resourceVersion" else _typed(kind)
    details: dict[str, Any] = {"name": name}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = title.split(".")[0]
    details["causes"] = [{"reason": word, "message": message, "field": field}]
    return Refusal(422, "Invalid", f'{title} "{name}" is invalid: {field}: {message}', details)


def _typed(kind: Kind) -> str:
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind


def forbidden(kind: Kind, name: str, why: str) -> Refusal:
    """Not this user, or not this object."""
    subject = f'{kind.full_name} "{name}"' if name else kind.full_name
    return Refusal(403, "Forbidden", f"{subject} is forbidden: {why}", _details(kind, name))


def expired(message: str, continue_token: str = "") -> Refusal:
    """History that is gone; where a list can go on without it, the token says how."""
    metadata = {"continue": continue_token} if continue_token else {}
    return Refusal(410, "Expired", message, metadata=metadata)


def timed_out() -> Refusal:
    """The request took longer than the time that it gave the server."""
    return Refusal(504, "Timeout", "Timeout: request did not complete within the allotted timeout", {})
