"""Error responses of the API server in memory: Status objects in the words of the real one."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.kube.memory.kinds import ServedKind

__all__ = [
    "ErrorAnswer", "already_exists", "bad_request", "conflict", "expired", "forbidden", "invalid", "modified",
    "no_resource", "not_allowed", "not_found", "success", "timed_out", "unprocessable", "wrong_uid",
]  # fmt: skip


class ErrorAnswer(Exception):
    """An error response; ``body`` is its Status, or plain text if the real server sends text."""

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
        """Return the body to send."""
        return msgspec.json.encode(self.status)


def success(code: int, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the Status of a success that has no object to return."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | ({"details": details} if details else {"code": code})


def _details(kind: ServedKind, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        details["group"] = kind.group
    return details | {"kind": kind.plural}


def not_found(kind: ServedKind, name: str) -> ErrorAnswer:
    """Return the error for an object that does not exist."""
    return ErrorAnswer(404, "NotFound", f'{kind.full_name} "{name}" not found', _details(kind, name))


def no_resource() -> ErrorAnswer:
    """Return the error for an unknown resource of a known group and version."""
    return ErrorAnswer(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: ServedKind, name: str) -> ErrorAnswer:
    """Return the error for a name that is taken."""
    return ErrorAnswer(409, "AlreadyExists", f'{kind.full_name} "{name}" already exists', _details(kind, name))


def conflict(kind: ServedKind, name: str, why: str, part: str = "") -> ErrorAnswer:
    """Return the error for an object that is not as the request expects."""
    ending = f"/{part}" if part else ""
    details = _details(kind, name) | {"kind": kind.plural + ending}
    message = f'Operation cannot be fulfilled on {kind.full_name}{ending} "{name}": {why}'
    return ErrorAnswer(409, "Conflict", message, details)


def modified(kind: ServedKind, name: str) -> ErrorAnswer:
    """Return the error for an object that was written since the version in the request."""
    return conflict(
        kind, name, "the object has been modified; please apply your changes to the latest version and try again"
    )


def wrong_uid(kind: ServedKind, namespace: str, name: str, wanted: str, found: str) -> ErrorAnswer:
    """Return the error for another object under the same name, in the storage layer's words."""
    key = "/".join(word for word in (kind.plural, namespace, name) if word)
    return conflict(
        kind,
        name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
    )


def bad_request(message: str) -> ErrorAnswer:
    """Return the error for an invalid request."""
    return ErrorAnswer(400, "BadRequest", message)


def not_allowed() -> ErrorAnswer:
    """Return the error for a method that the path does not have."""
    return ErrorAnswer(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unprocessable() -> ErrorAnswer:
    """Return the error for a JSON patch that does not apply."""
    return ErrorAnswer(422, "Invalid", "the server rejected our request due to an error in our request", {})


def invalid(kind: ServedKind, name: str, field: str, word: str, message: str) -> ErrorAnswer:
    """Return the error for an object that violates a rule; ``word`` is its reason, such as FieldValueInvalid."""
    title = kind.full_name if kind.needs_version and field == "metadata.resourceVersion" else _qualified_name(kind)
    details: dict[str, Any] = {"name": name}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = title.split(".")[0]
    details["causes"] = [{"reason": word, "message": message, "field": field}]
    return ErrorAnswer(422, "Invalid", f'{title} "{name}" is invalid: {field}: {message}', details)


def _qualified_name(kind: ServedKind) -> str:
    return f"{kind.kind}.{kind.group}" if kind.group else kind.kind


def forbidden(kind: ServedKind, name: str, why: str) -> ErrorAnswer:
    """Return the error for a user or object without permission."""
    subject = f'{kind.full_name} "{name}"' if name else kind.full_name
    return ErrorAnswer(403, "Forbidden", f"{subject} is forbidden: {why}", _details(kind, name))


def expired(message: str, continue_token: str = "") -> ErrorAnswer:
    """Return the error for compacted history; if a list can continue without it, the token says how."""
    metadata = {"continue": continue_token} if continue_token else {}
    return ErrorAnswer(410, "Expired", message, metadata=metadata)


def timed_out() -> ErrorAnswer:
    """Return the error for a request that exceeded its time limit."""
    return ErrorAnswer(504, "Timeout", "Timeout: request did not complete within the allotted timeout", {})
