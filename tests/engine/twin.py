"""A slow twin of the whole decision, in plain Python, written from the specifications: the oracle of the kernels.

It keeps nothing but who is where, computes every number again for each decision, and knows one host at a time.
Sources: ``vm-service.md`` 1.1 (least_loaded, best_fit, round_robin), ``kubernetes-scheduling.md`` 2.4 and 2.7 (filters,
allocation, balance, preferences), ``gpu-sharing-and-fgd.md`` 1.3 to 1.7 (devices and the gpu-sharing scores).

Where a policy draws lots (``random``) the twin names all that may win; the engine's choice must be one of them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from hostler.model import DeviceRequest, GuestSpec, Host, MixEntry, Policy, Reason, ScorerUse, Taint

WHOLE = 1000
DEFAULT_CPU, DEFAULT_MEMORY = 100, 200 * 2**20  # what Kubernetes scores a guest by that asks for none
CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
FIRST_RESOURCES = ("guests", "cpu", "memory", "storage")


class HeldGuest(NamedTuple):
    """A guest on a host."""

    spec: GuestSpec
    devices: tuple[int, ...]


class PossibleOutcome(NamedTuple):
    """What the twin would decide: all hosts that may win, and for each of them the device lists that may be taken."""

    winners: tuple[str, ...]
    total: int | float | None
    feasible: int
    reasons: Counter[Reason]
    totals: dict[str, int | float]
    raws: dict[str, dict[str, int | float]]  # host to scorer to raw score
    weighted: dict[str, dict[str, int | float]]


ACROSS_GUESTS = ("ports", "spread", "guest_affinity")  # no guest of these tests looks at others


class Twin:
    """Hosts by name, guests by host, and where each round robin stands."""

    def __init__(self, *policies: Policy) -> None:
        self.policies = {p.name: p for p in policies}
        self.policies[""] = policies[0]
        self.hosts: dict[str, Host] = {}
        self.held: dict[str, dict[str, HeldGuest]] = {}
        self.last: dict[str, str] = {}
        self.resources: list[str] = list(FIRST_RESOURCES)

    # -- facts --------------------------------------------------------------------------------------------------------

    def put(self, host: Host) -> None:
        self.hosts[host.name] = host
        self.held.setdefault(host.name, {})
        self.see(name for name, _ in host.capacity)

    def drop(self, name: str) -> None:
        """A host is away; what runs there stays booked for its return."""
        del self.hosts[name]

    def see(self, names) -> None:
        """Resources are ordered by first sight."""
        self.resources += [name for name in names if name not in self.resources]

    def book(self, host: str, uid: str, spec: GuestSpec, devices: tuple[int, ...]) -> None:
        self.held[host][uid] = HeldGuest(spec, devices)

    def free(self, uid: str) -> None:
        for held in self.held.values():
            held.pop(uid, None)

    def place(self, uid: str, spec: GuestSpec, host: str, devices: tuple[int, ...]) -> None:
        """Take over a decision of the engine that was found right."""
        self.book(host, uid, spec, devices)
        self.last[self.policies[spec.policy].name] = host

    # -- amounts ------------------------------------------------------------------------------------------------------

    def limit(self, policy: Policy, host: Host, resource: str) -> int:
        capacity = dict(host.capacity)
        if resource not in capacity:
            return 2**62 if resource == "guests" else 0
        ratio = dict(host.overcommit).get(resource) or dict(policy.overcommit).get(resource) or 1_000_000
        reserve = dict(policy.reserve) | dict(host.reserve)
        return max(0, math.floor(Fraction(capacity[resource]) * Fraction(ratio, 1_000_000)) - reserve.get(resource, 0))

    def used(self, host: Host, resource: str) -> int:
        return sum(wanted(held.spec, resource) for held in self.held[host.name].values())

    def left(self, host: Host) -> list[int]:
        """Milli-units left on each device."""
        left = [device.milli for device in host.devices]
        for held in self.held[host.name].values():
            sizes = [request.milli for request in held.spec.devices for _ in range(request.count)]
            for device, milli in zip(held.devices, sizes, strict=True):
                left[device] -= milli
        return left

    # -- filters ------------------------------------------------------------------------------------------------------

    def why_not(self, policy: Policy, spec: GuestSpec, host: Host) -> Reason | None:
        """Return the primary reason: the first filter that refuses, and its first complaint."""
        for use in policy.filters:
            if use.name in ACROSS_GUESTS:
                continue
            reason = getattr(self, f"_{use.name}")(policy, spec, host)
            if reason is not None:
                return Reason(use.name, *reason)
        return None

    def _unsupported(self, policy, spec, host):
        return ("not_supported", spec.unsupported[0]) if spec.unsupported else None

    def _cordon(self, policy, spec, host):
        if host.cordoned and not any(t.tolerates(CORDON) for t in spec.tolerations):
            return ("cordoned",)
        return None

    def _host_name(self, policy, spec, host):
        return ("not_the_named_host",) if spec.host_name not in ("", host.name) else None

    def _taints(self, policy, spec, host):
        for taint in host.taints:
            if taint.effect != "PreferNoSchedule" and not any(t.tolerates(taint) for t in spec.tolerations):
                return "untolerated_taint", taint.text()
        return None

    def _host_affinity(self, policy, spec, host):
        for key, value in spec.host_selector:
            if dict(host.labels).get(key) != value:
                return "selector_mismatch", f"{key}={value}"
        if spec.host_affinity and not any(term.matches(host.name, host.labels) for term in spec.host_affinity):
            return "affinity_mismatch", " or ".join(term.text() for term in spec.host_affinity)
        return None

    def _resources(self, policy, spec, host):
        for resource in self.resources:
            amount = wanted(spec, resource)
            if amount and self.used(host, resource) + amount > self.limit(policy, host, resource):
                return "insufficient", resource
        return None

    def _devices(self, policy, spec, host):
        left = self.left(host)
        for request in spec.devices:
            of_kind = [i for i, device in enumerate(host.devices) if device.kind == request.kind]
            if not of_kind:
                return "no_device", request.kind
            if not any(allows(request, host.devices[i].model) for i in of_kind):
                return "wrong_device_model", request.kind
            if len(fitting(host, left, request)) < request.count:
                return "insufficient_devices", request.kind
        return None

    # -- scores -------------------------------------------------------------------------------------------------------

    def decide(self, spec: GuestSpec) -> PossibleOutcome:
        """Work out one decision from nothing."""
        policy = self.policies[spec.policy]
        self.see(name for name, _ in spec.requests)
        reasons: Counter[Reason] = Counter()
        feasible: list[Host] = []
        for host in self.hosts.values():
            reason = self.why_not(policy, spec, host)
            if reason is None:
                feasible.append(host)
            else:
                reasons[reason] += 1
        if not feasible:
            return PossibleOutcome((), None, 0, reasons, {}, {}, {})
        totals: dict[str, int | float] = {host.name: 0 for host in feasible}
        raws: dict[str, dict[str, int | float]] = {host.name: {} for host in feasible}
        weighted: dict[str, dict[str, int | float]] = {host.name: {} for host in feasible}
        for use in policy.scorers:
            raw = self.raw_scores(policy, use, spec, feasible)
            if raw is None:
                continue
            scaled = normalised(NORMALISERS.get(use.name, "none"), raw)
            for host, before, value in zip(feasible, raw, scaled, strict=True):
                raws[host.name][use.name] = before
                weighted[host.name][use.name] = use.weight * value
                totals[host.name] += use.weight * value
        first = dict.fromkeys(totals, 0)
        if policy.soft_constraints == "first" and all(use.name != "preferred_hosts" for use in policy.scorers):
            raw = self.raw_scores(policy, ScorerUse("preferred_hosts"), spec, feasible)
            scaled = normalised(NORMALISERS["preferred_hosts"], raw) if raw else []
            for host, before, value in zip(feasible if raw else (), raw or (), scaled, strict=True):
                raws[host.name]["preferred_hosts"] = before
                first[host.name] = weighted[host.name]["preferred_hosts"] = value
                if isinstance(totals[host.name], float):  # behind a preference, floats are compared to nine digits
                    totals[host.name] = math.floor(totals[host.name] * 2**30) / 2**30
        most = max(first.values())
        best = max(total for name, total in totals.items() if first[name] == most)
        tied = [host for host in feasible if (first[host.name], totals[host.name]) == (most, best)]
        winners = tuple(host.name for host in self.first_by_ties(policy, tied))
        return PossibleOutcome(winners, best, len(feasible), reasons, totals, raws, weighted)

    def first_by_ties(self, policy: Policy, tied: list[Host]) -> list[Host]:
        """Narrow hosts of equal score down by the declared keys; more than one is left only where lots are drawn."""
        last = self.last.get(policy.name, "")
        values: list[Any]
        for key in (*policy.ties, "name"):
            match key:
                case "fewer_guests":
                    values = [self.used(host, "guests") for host in tied]
                case "rank":
                    values = [host.rank for host in tied]
                case "after_last":
                    values = [(bool(last) and host.name <= last, host.name) for host in tied]
                case "name":
                    values = [host.name for host in tied]
                case "random":
                    return tied
            tied = [host for host, value in zip(tied, values, strict=True) if value == min(values)]
        return tied

    def raw_scores(self, policy: Policy, use: ScorerUse, spec: GuestSpec, hosts: list[Host]) -> list | None:
        """Return one score per host, or None when the scorer has nothing to say about the guest."""
        arguments = json.loads(use.args) if use.args else {}
        weights = arguments.get("resources", {"cpu": 1, "memory": 1})
        match use.name:
            case "near_guests" | "even_spread":
                return None
            case "preferred_hosts" if not spec.preferred_hosts:
                return None
            case "preferred_taints" if not any(soft_taints(spec, host) for host in self.hosts.values()):
                return None
            case "balanced" if not any(wanted(spec, resource) for resource in weights):
                return None
        return [self.raw_score(policy, use.name, arguments, weights, spec, host) for host in hosts]

    def raw_score(self, policy, name, arguments, weights, spec, host):
        match name:
            case "preferred_hosts":
                return sum(p.weight for p in spec.preferred_hosts if p.term.matches(host.name, host.labels))
            case "preferred_taints":
                return soft_taints(spec, host)
            case "least_allocated" | "most_allocated":
                return self.allocated(policy, name, weights, spec, host)
            case "capacity_ratio":
                points = arguments.get("points", [[0, 0], [100, 10]])
                return self.capacity_ratio(policy, weights, points, spec, host)
            case "balanced":
                return self.balanced(policy, weights, spec, host)
            case "utilization":
                shares = [0.4, 0.4, 0.2]
                total = 0.0
                for share, resource in zip(shares, ("cpu", "memory", "storage"), strict=True):
                    whole = self.limit(policy, host, resource)
                    total += share * (self.used(host, resource) / whole if whole else 0.0)
                return total
            case "free_capacity":
                cpu, memory, storage = (
                    self.limit(policy, host, r) - self.used(host, r) for r in ("cpu", "memory", "storage")
                )
                return cpu + memory // 2**20 + storage // 2**30
        return self.gpu_score(policy, name, spec, host)

    def scored(self, host: Host, resource: str, spec: GuestSpec) -> int:
        """What is asked for with the guest placed, counting Kubernetes' defaults for cpu and memory."""
        specs = [held.spec for held in self.held[host.name].values()] + [spec]
        default = {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY}.get(resource, 0)
        return sum(wanted(s, resource) or default for s in specs)

    def counts(self, policy: Policy, weights, spec: GuestSpec, host: Host):
        """Yield (resource, weight, limit) of the resources that count for the guest."""
        for resource, weight in weights.items():
            if resource in ("cpu", "memory") or wanted(spec, resource):
                yield resource, weight, self.limit(policy, host, resource)

    def allocated(self, policy, name, weights, spec, host):
        score = weight_sum = 0
        for resource, weight, limit in self.counts(policy, weights, spec, host):
            if not limit:
                continue
            asked = self.scored(host, resource, spec)
            if name == "most_allocated":
                score += weight * (min(asked, limit) * 100 // limit)
            elif asked <= limit:
                score += weight * ((limit - asked) * 100 // limit)
            weight_sum += weight
        return score // weight_sum if weight_sum else 0

    def capacity_ratio(self, policy, weights, points, spec, host):
        score = weight_sum = 0
        for resource, weight, limit in self.counts(policy, weights, spec, host):
            asked = self.scored(host, resource, spec)
            use = 100 if not limit or asked > limit else asked * 100 // limit
            value = on_line([(x, 10 * y) for x, y in points], use)
            if value > 0:
                score += weight * value
                weight_sum += weight
        return math.floor(Fraction(score, weight_sum) + Fraction(1, 2)) if weight_sum else 0

    def balanced(self, policy, weights, spec, host):
        def evenness(extra: int) -> int:
            fractions = [
                min(1.0, (self.used(host, resource) + extra * wanted(spec, resource)) / limit)
                for resource, _, limit in self.counts(policy, weights, spec, host)
                if limit
            ]
            return math.trunc((1 - deviation(fractions)) * 100)

        return 50 + truncated(50 + evenness(1) - evenness(0), 2)

    # -- gpu sharing --------------------------------------------------------------------------------------------------

    def gpu_score(self, policy: Policy, name: str, spec: GuestSpec, host: Host) -> int:
        milli, count = gpu_need(spec)
        asked = sum(d.milli * d.count for d in spec.devices if d.kind == "gpu")
        gpus = self.gpus_left(host)
        idle = sum(gpus)
        cpu_left = self.limit(policy, host, "cpu") - self.used(host, "cpu")
        cpu = wanted(spec, "cpu")
        match name:
            case "gpu_best_fit":
                return math.trunc(100 * (1 - (0.5 * ((cpu_left - cpu) / 128000) + 0.5 * ((idle - asked) / 8000))))
            case "dot_product":
                product = (cpu_left / 128000) * (cpu / 128000) + (idle / 8000) * (asked / 8000)
                return math.trunc(100 * (1 - product / 2))
            case "gpu_clustering":
                return self.clustering(spec, host, idle) if count else 0
            case "gpu_packing":
                return packing(gpus, milli, count) if count else 0
            case "fgd":
                return max(score for score, _ in self.fgd_choices(policy, spec, host))
        raise AssertionError(name)

    def gpus_left(self, host: Host) -> list[int]:
        left = self.left(host)
        return [left[i] for i, device in enumerate(host.devices) if device.kind == "gpu"]

    def clustering(self, spec: GuestSpec, host: Host, idle: int) -> int:
        base = truncated(25 * (8000 - idle), 8000)
        tags = {tag(held.spec) for held in self.held[host.name].values()} - {""}
        if not tags:
            return base + 25
        if tag(spec) not in tags:
            return base
        return base + (75 if len(tags) == 1 else 50)

    def fgd_choices(self, policy: Policy, spec: GuestSpec, host: Host) -> list[tuple[int, int]]:
        """Return (score, device) for each device that a share may take; (score, -1) for whole gpus and none."""
        milli, count = gpu_need(spec)
        left = self.left(host)
        places = [i for i, device in enumerate(host.devices) if device.kind == "gpu"]
        gpus = [left[i] for i in places]
        model = host.devices[places[0]].model if places else None
        cpu = self.limit(policy, host, "cpu") - self.used(host, "cpu")
        before = fragment(policy.mix, gpus, cpu, model)
        cpu -= wanted(spec, "cpu")

        def score(after: list[int]) -> int:
            return sigmoid((before - fragment(policy.mix, after, cpu, model)) / 1000)

        if count == 1 and milli < WHOLE:
            own = next(d for d in spec.devices if d.kind == "gpu")
            return [
                (score([*gpus[:i], gpus[i] - milli, *gpus[i + 1 :]]), places[i])
                for i in range(len(gpus))
                if gpus[i] >= milli and allows(own, host.devices[places[i]].model)
            ]
        after = list(gpus)
        for i in sorted((i for i in range(len(gpus)) if gpus[i] >= milli), key=lambda i: (gpus[i], i))[:count]:
            after[i] -= milli
        return [(score(after), -1)]

    # -- devices ------------------------------------------------------------------------------------------------------

    def why_not_devices(self, spec: GuestSpec, name: str, taken: tuple[int, ...]) -> str | None:
        """Say what is wrong with the devices that a guest was given on a host, or None."""
        policy, host = self.policies[spec.policy], self.hosts[name]
        left = self.left(host)
        if len(taken) != sum(request.count for request in spec.devices):
            return f"{len(taken)} devices were given"
        at = 0
        for request in spec.devices:
            own, at = taken[at : at + request.count], at + request.count
            may = fitting(host, left, request)
            if len(set(own)) < len(own) or not set(own) <= set(may):
                return f"{own} are not among {may}"
            expected = self.expected_devices(policy, spec, host, left, request, may)
            if expected is not None and own != expected:
                return f"{own} were given instead of {expected}"
            for device in own:
                left[device] -= request.milli
        return None

    def expected_devices(self, policy, spec, host, left, request, may):
        """Return the devices that the policy's rule gives, None where lots are drawn."""
        if request.milli == WHOLE:
            return tuple(may[: request.count])
        if policy.devices == "fgd" and request.kind == "gpu" and request.count == 1:
            choices = self.fgd_choices(policy, spec, host)
            return (next(device for score, device in choices if score == max(s for s, _ in choices)),)
        match policy.devices:
            case "lowest":
                return tuple(may[: request.count])
            case "best" | "fgd":
                return tuple(sorted(may, key=lambda i: (left[i], i))[: request.count])
            case "worst":
                return tuple(sorted(may, key=lambda i: (-left[i], i))[: request.count])
        return None


# -- small parts ------------------------------------------------------------------------------------------------------

NORMALISERS = {"preferred_hosts": "max", "preferred_taints": "reverse_max", "gpu_best_fit": "min_max"}


def wanted(spec: GuestSpec, resource: str) -> int:
    amount = dict(spec.requests).get(resource, 0)
    return (amount or 1) if resource == "guests" else amount


def allows(request: DeviceRequest, model: str) -> bool:
    return not request.models or model in request.models


def fitting(host: Host, left: list[int], request: DeviceRequest) -> list[int]:
    """The devices that have room for one unit of a request, by index."""
    return [
        i
        for i, device in enumerate(host.devices)
        if device.kind == request.kind and allows(request, device.model) and left[i] >= request.milli
    ]


def soft_taints(spec: GuestSpec, host: Host) -> int:
    soft = [taint for taint in host.taints if taint.effect == "PreferNoSchedule"]
    return sum(not any(t.tolerates(taint) for t in spec.tolerations) for taint in soft)


def normalised(mode: str, raw: list) -> list:
    low, high = min(raw), max(raw)
    match mode:
        case "max":
            return [value * 100 // high if high else 0 for value in raw]
        case "reverse_max":
            return [100 - (value * 100 // high if high else 0) for value in raw]
        case "min_max":
            return [(value - low) * 100 // (high - low) if high > low else 0 for value in raw]
    return raw


def truncated(numerator: int, denominator: int) -> int:
    """Divide as Go does, toward zero."""
    return math.trunc(Fraction(numerator, denominator))


def on_line(points: list[tuple[int, int]], use: int) -> int:
    """Interpolate between points, dividing toward zero; level before the first and after the last."""
    if use <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if use <= x1:
            return y0 + truncated((y1 - y0) * (use - x0), x1 - x0)
    return points[-1][1]


def deviation(fractions: list[float]) -> float:
    match fractions:
        case [] | [_]:
            return 0.0
        case [first, second]:
            return abs(first - second) / 2
    mean = sum(fractions) / len(fractions)
    return math.sqrt(sum((f - mean) * (f - mean) for f in fractions) / len(fractions))


def gpu_need(spec: GuestSpec) -> tuple[int, int]:
    own = next((d for d in spec.devices if d.kind == "gpu"), None)
    return (own.milli, own.count) if own else (0, 0)


def tag(spec: GuestSpec) -> str:
    milli, count = gpu_need(spec)
    if not count:
        return ""
    return "share-gpu" if count == 1 and milli < WHOLE else f"{count}-gpu"


def packing(gpus: list[int], milli: int, count: int) -> int:
    """Three tiers: partly used devices (50..100), partly used hosts (33..49), free hosts (up to 32)."""
    if all(left == WHOLE for left in gpus):
        return max(33 - len(gpus), len(gpus))
    taken = sorted(left for left in gpus if left >= milli)[:count]
    free = taken.count(WHOLE)
    if free:
        return max(50 - free, 33)
    return max(100 - sum(left * 100 // 1000 for left in taken) // 10, 50)


def fragment(mix: tuple[MixEntry, ...], gpus: list[int], cpu: int, model: str | None) -> float:
    """F of one host: what its idle gpus are worth less to the typical mix; each class summed for itself, in order."""
    classes = dict.fromkeys(("q1", "q2", "q3", "q4", "xl", "xr", "no_access"), 0.0)
    idle = float(sum(gpus))
    for entry in mix:
        share, has_cpu = entry.share, cpu >= entry.cpu_millis
        if not entry.device_millis:
            classes["xl" if has_cpu else "xr"] += share * idle
        elif model is None or (entry.models and model not in entry.models):
            classes["no_access"] += share * idle
        else:
            enough = sum(left >= entry.device_millis for left in gpus) >= entry.device_count
            if enough and has_cpu:
                classes["q2"] += share * float(sum(left for left in gpus if left < entry.device_millis))
            else:
                lacking = {(True, False): "q4", (False, True): "q2", (False, False): "q1"}[enough, has_cpu]
                classes[lacking] += share * idle
    total = 0.0
    for name in ("q1", "q2", "q4", "xl", "xr", "no_access"):
        total += classes[name]
    return total


def sigmoid(x: float) -> int:
    return math.trunc(100 * (1 / (1 + math.exp(-x))))
