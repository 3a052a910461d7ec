"""Extenders as settings, with the checks that both formats share."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import UNSET

from hostler.config import Document, invalid, quote
from hostler.config.entries import read_duration
from hostler.config.key_paths import Path
from hostler.errors import InputError
from hostler.kube.configuration.election import SAFE_SHARE, longest_safe_bind_s
from hostler.kube.configuration.problems import ConfigurationProblems
from hostler.kube.configuration.scheduler_file import ExtenderEntry, ManagedEntry
from hostler.kube.settings import Election, ExtenderSettings

__all__ = ["NS_PER_S", "check_extenders", "extender_timeout", "read_extenders", "seconds_of"]

NS_PER_S = 1_000_000_000
_USUAL_TIMEOUT_S = 5.0
_NOT_PREEMPTING = "is not called: the scheduler chooses victims, and extenders then filter the pod's node"


def seconds_of(document: Document, path: Path, text: str) -> float:
    """Read a duration that must not be zero, in seconds."""
    found = read_duration(document, path, text)
    if not found:
        raise invalid(document, path, "is zero", hint="set a positive duration")
    return found / NS_PER_S


def extender_timeout(
    document: Document, path: Path, text: str | None, binds_under: Election | None, lease_key: str
) -> float:
    """Read an extender's time limit. A binding extender must be done before another leader can exist."""
    limit = longest_safe_bind_s(binds_under) if binds_under is not None and binds_under.is_on else None
    if text is None:
        return _USUAL_TIMEOUT_S if limit is None else min(_USUAL_TIMEOUT_S, SAFE_SHARE * limit)
    found = seconds_of(document, path, text)
    if limit is not None and found >= limit:
        raise invalid(
            document,
            path,
            "must be shorter than the lease minus the renewal deadline: a late bind could follow another leader's",
            hint=f"less than {limit:g}s, or a longer {lease_key}",
        )
    return found


def read_extenders(
    problems: ConfigurationProblems, entries: Sequence[ExtenderEntry], election: Election
) -> tuple[ExtenderSettings, ...]:
    """Read the extenders of a file of kind ``Scheduler``."""
    document = problems.document
    found = []
    for index, entry in enumerate(entries):
        path: Path = ("extenders", index)
        managed = [one if isinstance(one, ManagedEntry) else ManagedEntry(one) for one in entry.managed_resources]
        found.append(
            ExtenderSettings(
                url_prefix=entry.url_prefix,
                filter_verb=entry.filter_verb,
                prioritize_verb=entry.prioritize_verb,
                preempt_verb=entry.preempt_verb,
                bind_verb=entry.bind_verb,
                weight=entry.weight,
                timeout_s=extender_timeout(
                    document,
                    (*path, "timeout"),
                    None if entry.timeout is UNSET else entry.timeout,
                    election if entry.bind_verb else None,
                    "election.lease",
                ),
                is_node_cache_capable=entry.node_cache_capable,
                managed_resources=tuple(one.name for one in managed),
                ignored_resources=tuple(one.name for one in managed if one.ignored_by_scheduler),
                is_ignorable=entry.ignorable,
                ca_file=entry.ca_file,
                cert_file=entry.cert_file,
                key_file=entry.key_file,
                server_name=entry.server_name,
                is_insecure=entry.insecure,
            )
        )
    check_extenders(problems, found, ("url_prefix", "weight", "preempt_verb", "bind_verb", "managed_resources"))
    return tuple(found)


def check_extenders(
    problems: ConfigurationProblems, found: Sequence[ExtenderSettings], keys: tuple[str, str, str, str, str]
) -> None:
    """Reject settings that no scheduler could use; ``keys`` are the key names of the format, for messages."""
    document = problems.document
    url, weight, preempt, bind, managed = keys
    for index, extender in enumerate(found):
        path: Path = ("extenders", index)
        if not _is_address(extender.url_prefix):
            raise invalid(
                document,
                (*path, url),
                f"is {quote(extender.url_prefix)}",
                hint="write it as http://127.0.0.1:8888/scheduler",
            )
        if extender.prioritize_verb and extender.weight < 1:
            raise invalid(document, (*path, weight), "is 0: its scores have no effect", hint="give it 1 or more")
        if len(set(extender.managed_resources)) < len(extender.managed_resources):
            raise invalid(document, (*path, managed), "names a resource twice", hint="keep one of them")
        if "" in extender.managed_resources:
            raise invalid(document, (*path, managed), "has a resource without a name", hint="name it")
        if extender.ignored_resources:
            text = f"leaves {quote(extender.ignored_resources[0])} to the extender; here it is counted as well"
            problems.reject((*path, managed), text, hint="let nodes advertise it")
        if extender.preempt_verb:
            problems.note((*path, preempt), _NOT_PREEMPTING)
    binders = [index for index, extender in enumerate(found) if extender.bind_verb]
    if len(binders) > 1:
        raise InputError(
            f"{document.where(('extenders', binders[1], bind))}: two extenders have a verb to bind",
            hint="only one extender may bind",
        )


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        return False
