"""Authenticated callers, and the reasons why they may not do something, in words that a user can act on."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostler.control.access.errors import ForbiddenError
from hostler.control.access.roles import ALL_SCOPES, check_permission, covers, rank
from hostler.errors import Cause

__all__ = ["Principal"]


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated caller. An empty project means all projects; ``host`` is the id of an agent's host.

    ``until_ns`` is when the authentication expires; open streams must end then too.
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
        """Return its name in the audit log."""
        return f"{self.kind}:{self.id}"

    def why_not(self, permission: str, project: str = "") -> str | None:
        """Return why it lacks a permission in a project, or None if it has it. An empty project means all."""
        refused = self._refusal(permission, project)
        return None if refused is None else refused.message

    def check(self, permission: str, project: str = "") -> None:
        """Reject what it may not do; ForbiddenError."""
        refused = self._refusal(permission, project)
        if refused is not None:
            raise refused

    def _refusal(self, permission: str, project: str) -> ForbiddenError | None:
        needed = check_permission(permission)
        if self.kind == "agent":
            return _forbidden_error(f"an agent may only report for its own host ({self.name}): use an API key")
        if rank(self.role) < rank(needed.role):
            where = f"in project {self.project}" if self.project else "in all projects"
            needs = f"the role {needed.role}" + (" in all projects" if needed.place == "fleet" else "")
            return _forbidden_error(f"{permission} needs {needs}; this key is {self.role or 'nothing'} {where}")
        if not covers(self.scopes, permission):
            return _forbidden_error(f"this key's scopes ({', '.join(self.scopes) or 'none'}) leave out {permission}")
        if not self.project:
            return None
        if needed.place == "fleet":
            return _forbidden_error(
                f"{permission} concerns all projects, and this key is for project {self.project} only"
            )
        if project != self.project:
            asked = f"project {project}" if project else "all projects"
            what = f"this key is for project {self.project} only, not for {asked}"
            return _forbidden_error(what, Cause("other_project", "project", self.project))
        return None

    def limit_project(self, project: str = "") -> str:
        """Return the project that limits a list, if the caller asked for one project or (empty) for all."""
        return project or self.project

    def why_not_grant(
        self, role: str, project: str, scopes: tuple[str, ...], until_ns: int | None = None
    ) -> str | None:
        """Return why it may not grant these rights to a key, or None if they do not exceed its own."""
        if self.kind == "agent":
            return "an agent cannot grant rights"
        if rank(role) > rank(self.role):
            return f"a key of role {self.role or 'nothing'} cannot create one of role {role}"
        if self.project and project != self.project:
            return f"a key for project {self.project} creates keys for that project only"
        for one in scopes:
            if not covers(self.scopes, one):
                return f"this key's scopes ({', '.join(self.scopes)}) do not include {one}"
        if self.until_ns is not None and (until_ns is None or until_ns > self.until_ns):
            return "a key that expires cannot create one that expires later"
        return None


def _forbidden_error(what: str, cause: Cause | None = None) -> ForbiddenError:
    return ForbiddenError(what, hint="ask an administrator for a key that may", cause=cause)
