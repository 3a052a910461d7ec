"""A caller whom we know, and what keeps it from doing something: in words that a person can act on."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.control.access.errors import ForbiddenError
from hostler.control.access.roles import ALL_SCOPES, covers, known, rank

__all__ = ["Principal"]


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls. An empty project means all of them; ``host`` is the id of an agent's host.

    ``until_ns`` is when this ends by itself; streams that stay open must end then too.
    """

    id: str
    name: str = ""
    kind: Literal["key", "session", "agent"] = "key"
    role: str = ""
    project: str = ""
    scopes: tuple[str, ...] = ALL_SCOPES
    host: str = ""
    until_ns: int | None = None

    @property
    def actor(self) -> str:
        """Return how the audit names it."""
        return f"{self.kind}:{self.id}"

    def why_not(self, permission: str, project: str = "") -> str | None:
        """Return why it lacks a permission in a project, None if it has it. An empty project means all of them."""
        needed = known(permission)
        if self.kind == "agent":
            return f"an agent may only report for its own host ({self.name}): use an API key"
        if rank(self.role) < rank(needed.role):
            where = f"in project {self.project}" if self.project else "in all projects"
            return f"{permission} needs the role {needed.role}; this key is {self.role or 'nothing'} {where}"
        if not covers(self.scopes, permission):
            return f"this key's scopes ({', '.join(self.scopes) or 'none'}) leave out {permission}"
        if not self.project:
            return None
        if needed.place == "fleet":
            return f"{permission} concerns all projects, and this key is for project {self.project} only"
        if project != self.project:
            asked = f"project {project}" if project else "all projects"
            return f"this key is for project {self.project} only, not for {asked}"
        return None

    def check(self, permission: str, project: str = "") -> None:
        """Refuse what it may not do; ForbiddenError."""
        reason = self.why_not(permission, project)
        if reason is not None:
            raise ForbiddenError(reason, hint="ask an administrator for a key that may")

    def narrowed(self, project: str = "") -> str:
        """Return the project that a list must be limited to, where the caller asked for one or (empty) for all."""
        return project or self.project

    def why_not_grant(
        self, role: str, project: str, scopes: tuple[str, ...], until_ns: int | None = None
    ) -> str | None:
        """Return why it may not give such rights to a key, None if they are no more than its own, and no longer."""
        if self.kind == "agent":
            return "an agent gives rights to nobody"
        if rank(role) > rank(self.role):
            return f"a key of role {self.role or 'nothing'} cannot make one of role {role}"
        if self.project and project != self.project:
            return f"a key for project {self.project} makes keys for that project only"
        for one in scopes:
            if not covers(self.scopes, one):
                return f"this key's scopes ({', '.join(self.scopes)}) do not hold {one}"
        if self.until_ns is not None and (until_ns is None or until_ns > self.until_ns):
            return "a key that expires makes no key that outlives it"
        return None
