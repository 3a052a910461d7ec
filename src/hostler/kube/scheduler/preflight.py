"""Before the start: does a Kubernetes server answer, do we know its version, and may we do what a scheduler does?

Roles are written by hand and are often one verb short, which shows much later and elsewhere. So the server is asked
about every right; all that are missing are named at once, those without which nothing works as an error. Used by
``main``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from hostler.errors import UnavailableError
from hostler.kube.api.client import Client
from hostler.kube.api.failures import ApiError
from hostler.kube.api.patience import Patience, is_worth_retrying, with_patience
from hostler.kube.api.transport import TransportError
from hostler.kube.api.versions import check_version, read_version
from hostler.kube.facts.kinds import KINDS
from hostler.kube.settings import Election, SchedulerSettings

__all__ = ["Right", "check_server", "missing_rights", "rights_for"]

_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_TRIES = Patience(first_s=0.5, limit_s=4.0, max_tries=6)  # about ten seconds: the server may just be starting
_REVIEW_TIMEOUT_S = 5.0
_WHO = "check the token or certificate in the kubeconfig: it is not known to this server, or has expired"


class Right(msgspec.Struct, frozen=True):
    """A verb on a resource, and what does not work without it; nothing: then nothing works."""

    verb: str
    resource: str  # with its part, as in pods/binding
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
    Right("get", "pods"),  # else nobody learns what became of a bind without an answer
    Right("patch", "pods/status", cost="pods are not told why they wait, and nobody is evicted"),
    Right("delete", "pods", cost="nobody is evicted for a pod of higher priority"),
    Right("create", "events", "events.k8s.io", "no events are written"),
    Right("patch", "events", "events.k8s.io", "events that come again are not counted"),
    Right("patch", "podgroups/status", "scheduling.k8s.io", "pod groups are not told how they are doing"),
    Right("patch", "persistentvolumeclaims", cost="pods whose volumes wait for a node are not placed"),
    Right("patch", "persistentvolumes", cost="pods whose volumes wait for a node are not placed"),
)


def rights_for(election: Election) -> tuple[Right, ...]:
    """Return all that a scheduler needs."""
    reads = [
        Right(verb, kind.resource.plural, kind.resource.group) for kind in KINDS for verb in ("list", "watch")
    ]  # fmt: skip
    place = {"namespace": election.namespace, "name": election.name}
    lease = [
        Right("get", "leases", "coordination.k8s.io", **place),
        Right("update", "leases", "coordination.k8s.io", **place),
        Right("create", "leases", "coordination.k8s.io", "the lease must be there already", **place),
    ]
    return (*reads, *_WRITES, *(lease if election.is_on else ()))


async def check_server(client: Client, settings: SchedulerSettings, say: Callable[[str], None]) -> None:
    """Say what is unusual about the server and our rights; raise where it makes no sense to start."""
    warning = check_version(await _reach(client, say))
    if warning:
        say(warning)
    missing = await missing_rights(client, rights_for(settings.election))
    if missing is None:
        say("the server does not say what we may do: rights that are missing will show later")
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


async def missing_rights(client: Client, rights: tuple[Right, ...]) -> list[Right] | None:
    """Ask which of these rights we lack; None where the server does not tell."""
    try:
        found = await asyncio.gather(*[_is_allowed(client, right) for right in rights])
    except (ApiError, TransportError):
        return None
    return [right for right, is_allowed in zip(rights, found, strict=True) if not is_allowed]


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


async def _is_allowed(client: Client, right: Right) -> bool:
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
        raise TransportError("the answer to a review cannot be read", may_have_acted=False) from None


async def _reach(client: Client, say: Callable[[str], None]) -> str:
    """Return the server's version; one that is just starting is given time, and what fails is said once."""
    said: set[str] = set()

    def is_worth(error: Exception) -> bool:
        if is_worth_retrying(error) and str(error) not in said:
            said.add(str(error))
            say(f"{error}; trying again")
        return is_worth_retrying(error)

    try:
        return await with_patience(lambda: read_version(client), _TRIES, random.Random(), is_worth=is_worth)
    except ApiError as error:
        if error.status == 401:
            raise UnavailableError(f"the server does not know who we are: {error.message}", hint=_WHO) from None
        raise
