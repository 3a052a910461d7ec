"""Checks before the start: the API server answers, its version is supported, and we have the rights of a scheduler.

Roles are written by hand and often miss a verb, which shows up much later and elsewhere. So every right is checked. All
missing ones are named at once, and essential ones are an error. Used by ``main``.

A version beyond the tested range mostly works, so it is a warning. A version whose objects lack fields that decisions
need (scheduling gates of 1.30, match label keys) is rejected.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable

import msgspec

from hostler.errors import InputError, UnavailableError
from hostler.kube.api.client import KubeClient
from hostler.kube.api.failures import ApiError, is_worth_retrying
from hostler.kube.facts.kinds import KINDS
from hostler.kube.settings import Election, SchedulerSettings
from hostler.runtime.backoff import BackoffRules, retry_call
from hostler.runtime.transport import TransportError

__all__ = ["Right", "check_server", "check_version", "missing_rights", "read_version", "rights_for"]

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_TRIES = BackoffRules(first_s=0.5, limit_s=4.0, max_tries=6)  # about ten seconds: the server may just be starting
_REVIEW_TIMEOUT_S = 5.0
_WHO = "check the token or certificate in the kubeconfig: it is not known to this server, or has expired"
TESTED = ("1.34", "1.37")
OLDEST = "1.30"

_VERSION = re.compile(r"v?(\d+)\.(\d+)")


class Right(msgspec.Struct, frozen=True):
    """A verb on a resource, and what does not work without it; empty: nothing works."""

    verb: str
    resource: str  # with its subresource, as in pods/binding
    group: str = ""
    cost: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        group = f" in {self.group}" if self.group else ""
        namespace = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{group}{namespace}"


_WRITES = (
    Right("create", "pods/binding"),
    Right("get", "pods"),  # otherwise the outcome of an unanswered bind stays unknown
    Right("patch", "pods/status", cost="pods do not show why they wait, and no pod is evicted"),
    Right("delete", "pods", cost="no pod is preempted"),
    Right("create", "events", "events.k8s.io", "no events are written"),
    Right("patch", "events", "events.k8s.io", "repeated events are not counted"),
    Right("patch", "podgroups/status", "scheduling.k8s.io", "pod groups get no conditions"),
    Right("patch", "persistentvolumeclaims", cost="pods whose volumes wait for a node are not placed"),
    Right("patch", "persistentvolumes", cost="pods whose volumes wait for a node are not placed"),
)


def rights_for(election: Election) -> tuple[Right, ...]:
    """Return all rights that a scheduler needs."""
    reads = [
        Right(verb, kind.resource.plural, kind.resource.group) for kind in KINDS for verb in ("list", "watch")
    ]  # fmt: skip
    place = {"namespace": election.namespace, "name": election.name}
    lease = [
        Right("get", "leases", "coordination.k8s.io", **place),
        Right("update", "leases", "coordination.k8s.io", **place),
        Right("create", "leases", "coordination.k8s.io", "the lease must exist already", **place),
    ]
    return (*reads, *_WRITES, *(lease if election.is_on else ()))


async def check_server(client: KubeClient, settings: SchedulerSettings, say: Callable[[str], None]) -> None:
    """Log what is unusual about the server and our rights; raise if the scheduler could not work."""
    warning = check_version(await _reach(client, say))
    if warning:
        say(warning)
    missing = await missing_rights(client, rights_for(settings.election))
    if missing is None:
        say("the server does not review our rights: missing ones show up later")
        return
    fatal = [str(right) for right in missing if not right.cost]
    for right in missing:
        if right.cost:
            say(f"not allowed to {right}: {right.cost}")
    if fatal:
        raise UnavailableError(
            f"not allowed to {', '.join(fatal)}",
            hint="bind a role with these rights to our user; deploy/kustomize/base/cluster-role.yaml has all of them",
        )


async def missing_rights(client: KubeClient, rights: tuple[Right, ...]) -> list[Right] | None:
    """Return which of these rights we lack; None if the server does not say."""
    try:
        found = await asyncio.gather(*[_is_allowed(client, right) for right in rights])
    except (ApiError, TransportError):
        return None
    return [right for right, is_allowed in zip(rights, found, strict=True) if not is_allowed]


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def _is_allowed(client: KubeClient, right: Right) -> bool:
    resource, _, part = right.resource.partition("/")
    asked = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": part}
    asked |= {"namespace": right.namespace, "name": right.name}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {key: value for key, value in asked.items() if value}},
    }
    answer = await client.post(_REVIEWS, body, timeout_s=_REVIEW_TIMEOUT_S)
    try:
        return msgspec.json.decode(answer, type=_Review).status.allowed
    except msgspec.MsgspecError:
        raise TransportError("the response to an access review is unreadable", may_have_acted=False) from None


async def _reach(client: KubeClient, say: Callable[[str], None]) -> str:
    """Return the server's version; wait for a starting server, and log each failure once."""
    said: set[str] = set()

    def is_worth(error: Exception) -> bool:
        if is_worth_retrying(error) and str(error) not in said:
            said.add(str(error))
            say(f"{error}; trying again")
        return is_worth_retrying(error)

    try:
        return await retry_call(lambda: read_version(client), _TRIES, random.Random(), is_worth=is_worth)
    except ApiError as error:
        if error.status == 401:
            raise UnavailableError(f"authentication failed: {error.message}", hint=_WHO) from None
        raise


class VersionInfo(msgspec.Struct, rename="camel"):
    """The used fields of /version."""

    git_version: str = ""


async def read_version(client: KubeClient) -> str:
    """Ask the server for its version, such as ``v1.37.1``."""
    body = await client.read("/version")
    try:
        return msgspec.json.decode(body, type=VersionInfo).git_version
    except msgspec.MsgspecError:
        raise InputError(
            "the server is not a Kubernetes API server", hint="check the server's address in the kubeconfig"
        ) from None


def check_version(version: str) -> str | None:
    """Return a warning for a version outside the tested range; raise InputError if it is too old."""
    number = _number(version)
    if number is None:
        return f"the server's version has an unknown form; tested are {TESTED[0]} to {TESTED[1]}"
    if number < (_number(OLDEST) or (0, 0)):
        raise InputError(
            f"the API server is {version}; at least {OLDEST} is needed", hint=f"tested are {TESTED[0]} to {TESTED[1]}"
        )
    if (_number(TESTED[0]) or number) <= number <= (_number(TESTED[1]) or number):
        return None
    return f"the API server is {version}; tested are {TESTED[0]} to {TESTED[1]}"


def _number(version: str) -> tuple[int, int] | None:
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2])) if match else None
