"""Who may do what: permissions of the API server in memory, and the reviews that ask about them."""

from __future__ import annotations

from typing import Any

import msgspec

from hostler.kube.memory.calls import Call
from hostler.kube.memory.refusals import forbidden

__all__ = ["Permissions"]

Json = dict[str, Any]


class Permissions:
    """Everybody may do everything, except what is denied. A star stands for any user, verb or resource."""

    def __init__(self) -> None:
        self.denied: set[tuple[str, str, str]] = set()  # user, verb, resource such as pods or pods/binding
        self.tokens: dict[str, Json] = {}  # what a TokenReview says of a token: username, uid, groups

    def allows(self, user: str, verb: str, resource: str) -> bool:
        """Say whether a user may use a verb on a resource."""
        return not any(
            known_user in (user, "*") and known_verb in (verb, "*") and known_resource in (resource, "*")
            for known_user, known_verb, known_resource in self.denied
        )

    def check(self, user: str, call: Call) -> None:
        """Refuse what is denied, in the words of the real server."""
        if not self.denied or self.allows(user, call.verb, call.resource):
            return
        place = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
        raise forbidden(
            call.kind,
            call.name,
            f'User "{user}" cannot {call.verb} resource "{call.resource}" in API group "{call.kind.group}" {place}',
        )

    def review(self, user: str, path: str, body: bytes) -> bytes | None:
        """Answer a review; None where the path asks for none."""
        question = path.partition("?")[0].rpartition("/")[2]
        if question not in ("tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"):
            return None
        asked = msgspec.json.decode(body)
        spec = asked.get("spec") or {}
        if question == "tokenreviews":
            status = self._who(spec.get("token", ""))
        else:
            rule = spec.get("resourceAttributes") or spec.get("nonResourceAttributes") or {}
            resource = "/".join(word for word in (rule.get("resource"), rule.get("subresource")) if word)
            subject = spec.get("user", "") if question == "subjectaccessreviews" else user
            status = {"allowed": self.allows(subject, rule.get("verb", ""), resource or rule.get("path", ""))}
        return msgspec.json.encode(asked | {"metadata": {}, "status": status})

    def _who(self, token: str) -> Json:
        if token in self.tokens:
            return {"authenticated": True, "user": self.tokens[token]}
        return {"user": {}, "error": "invalid bearer token"}
