"""Convert files of kind ``Scheduler`` to settings."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from hostler.config import Document, check_kind, convert, did_you_mean, invalid, quote
from hostler.config.entries import check_name
from hostler.config.key_paths import Path
from hostler.config.policies import read_policy, read_preemption
from hostler.config.policy_file import PolicyEntry
from hostler.config.settings import read_queue
from hostler.engine import BUILT_IN
from hostler.errors import DuplicateNameError, UnknownNameError
from hostler.kube.configuration.election import SAFE_SHARE, check_election_entry, longest_safe_bind_s
from hostler.kube.configuration.extenders import read_extenders, seconds_of
from hostler.kube.configuration.problems import ConfigurationProblems
from hostler.kube.configuration.scheduler_file import ElectionEntry, LimitsEntry, ProfileEntry, SchedulerFile
from hostler.kube.settings import ApiLimits, Election, GangRules, SchedulerProfile, SchedulerSettings
from hostler.model import Policy, PreemptionRules

__all__ = ["KIND", "bind_timeout", "read_own"]

KIND = "Scheduler"
_LONGEST_BIND_S = 4.0
_ELECTION_KEYS = {key: key for key in ("namespace", "name", "lease", "renew", "retry")}


def read_own(document: Document, *, lenient: bool = False) -> SchedulerSettings:
    """Return the settings that a document of kind ``Scheduler`` describes."""
    check_kind(document, KIND)
    file = convert(document, document.data, SchedulerFile)
    problems = ConfigurationProblems(document, is_lenient=lenient)
    entries = [ProfileEntry()] if file.profiles is UNSET else file.profiles
    own, keeps_all = _own_policies(document, file, entries)
    profiles = _profiles(document, entries, own)
    election = _election(document, file.election)
    listen = _listen(document, file.listen)
    policies = tuple(
        _with_rules(document, file, policy, keeps_all=policy.name in keeps_all)
        for policy in dict.fromkeys({**BUILT_IN, **own}[profile.policy] for profile in profiles)
    )
    return SchedulerSettings(
        profiles=profiles,
        policies=policies,
        queue=read_queue(document, file.queue),
        election=election,
        limits=_limits(document, file.limits, election),
        extenders=read_extenders(problems, file.extenders, election),
        gangs=GangRules(
            when_broken=file.gangs.when_broken,
            release_after_s=seconds_of(document, ("gangs", "release_after"), file.gangs.release_after),
            head_of_line=file.gangs.head_of_line,
            priority=file.gangs.priority,
        ),
        seed_annotations=file.seed_annotations,
        scheduler_metrics=file.scheduler_metrics,
        seed=file.seed,
        listen=listen,
        kubeconfig=file.kubeconfig,
        notes=problems.notes,
    )


def _own_policies(
    document: Document, file: SchedulerFile, profiles: Sequence[ProfileEntry]
) -> tuple[dict[str, Policy], set[str]]:
    """Return the file's policies by name, and the names of those that themselves disable preemption."""
    places: list[tuple[Path, PolicyEntry]] = [(("policies", i), entry) for i, entry in enumerate(file.policies)]
    for index, profile in enumerate(profiles):
        if isinstance(profile.policy, PolicyEntry):
            places.append((("profiles", index, "policy"), profile.policy))
    found: dict[str, Policy] = {}
    keeps_all: set[str] = set()
    for path, entry in places:
        found[entry.name] = read_policy(document, path, entry, BUILT_IN, found)
        if entry.preemption is None or (entry.preemption is UNSET and entry.extends in keeps_all):
            keeps_all.add(entry.name)
    return found, keeps_all


def _profiles(
    document: Document, entries: Sequence[ProfileEntry], own: dict[str, Policy]
) -> tuple[SchedulerProfile, ...]:
    if not entries:
        raise invalid(document, ("profiles",), "is empty", hint="give one profile, or leave it out")
    found: dict[str, SchedulerProfile] = {}
    for index, entry in enumerate(entries):
        path: Path = ("profiles", index)
        name = entry.scheduler_name
        check_name(document, (*path, "scheduler_name"), name)
        if name in found:
            raise DuplicateNameError(
                f"{document.where((*path, 'scheduler_name'))}: two profiles are for {quote(name)}",
                hint="pods name one scheduler; keep one of them",
            )
        policy = entry.policy if isinstance(entry.policy, str) else entry.policy.name
        if policy not in own and policy not in BUILT_IN:
            raise UnknownNameError(
                f"{document.where((*path, 'policy'))}: policy {quote(policy)} is not known",
                hint=did_you_mean(policy, {**BUILT_IN, **own}),
            )
        found[name] = SchedulerProfile(name, policy)
    return tuple(found.values())


def _with_rules(document: Document, file: SchedulerFile, policy: Policy, *, keeps_all: bool) -> Policy:
    """Apply the settings for all profiles: preemption (on by default), one pod per node."""
    if file.preemption is UNSET:
        rules = None if keeps_all else policy.preemption or PreemptionRules()
    else:
        rules = read_preemption(document, ("preemption",), file.preemption)
    return msgspec.structs.replace(
        policy, preemption=rules, one_guest_per_host=policy.one_guest_per_host or file.one_pod_per_node
    )


def _election(document: Document, entry: ElectionEntry) -> Election:
    lease, renew, retry = (
        seconds_of(document, ("election", key), getattr(entry, key)) for key in ("lease", "renew", "retry")
    )
    election = Election(
        is_on=entry.enabled, namespace=entry.namespace, name=entry.name, lease_s=lease, renew_s=renew, retry_s=retry
    )
    check_election_entry(document, ("election",), election, _ELECTION_KEYS)
    return election


def bind_timeout(election: Election) -> float:
    """Return how long a bind may take, so that it is over before another scheduler can hold the lease."""
    if not election.is_on:
        return _LONGEST_BIND_S
    return min(_LONGEST_BIND_S, SAFE_SHARE * longest_safe_bind_s(election))


def _limits(document: Document, entry: LimitsEntry, election: Election) -> ApiLimits:
    limit = bind_timeout(election)
    if entry.bind_timeout is not UNSET:
        path: Path = ("limits", "bind_timeout")
        limit = seconds_of(document, path, entry.bind_timeout)
        if election.is_on and limit >= longest_safe_bind_s(election):
            raise invalid(
                document,
                path,
                "must be shorter than the lease minus the renewal deadline: a late bind could follow another leader's",
                hint=f"less than {longest_safe_bind_s(election):g}s, or a longer election.lease",
            )
    return ApiLimits(
        max_in_flight=entry.max_in_flight,
        bind_timeout_s=limit,
        call_timeout_s=seconds_of(document, ("limits", "call_timeout"), entry.call_timeout),
    )


def _listen(document: Document, text: str) -> str:
    """Return an address to listen on; empty for none, which may also be written as a word."""
    if text == "none":
        return ""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) < 65536
    if text and not (colon and host and is_port):
        raise invalid(document, ("listen",), f"is {quote(text)}", hint="write it as 127.0.0.1:10359, or none")
    return text
