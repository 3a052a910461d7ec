"""Where two journals part, in words: header fields, then the first fact or action that differs."""

from __future__ import annotations

from itertools import zip_longest

from hostler.cli.output.decision_texts import plural
from hostler.engine.journals.journal import CheckpointEntry, FactEntry, Journal, StepEntry
from hostler.model import Abandon, Action, Ask, Bind, Defer, Event, Evict, Move, Nominate, Prepare

__all__ = ["event_line", "find_differences"]

NOTHING = "nothing"


def find_differences(a: Journal, b: Journal) -> list[str]:
    """Return the lines that say where two journals first differ, or none."""
    found = [
        f"header: {name} differs"
        for name in a.header.__struct_fields__
        if getattr(a.header, name) != getattr(b.header, name)
    ]
    for number, (one, other) in enumerate(zip(a.entries, b.entries, strict=False), 1):
        if one != other:
            return [*found, f"entry {number:,}: {_entries(one, other)}"]
    if len(a.entries) != len(b.entries):
        found.append(f"one has {plural(len(a.entries), 'entry')}, the other {len(b.entries):,}")
    return found


def event_line(event: Event) -> str:
    """Name an event and what it is about."""
    name = str(event.__struct_config__.tag)
    for field in ("host", "guest", "gang", "budget", "reservation"):
        about = getattr(event, field, None)
        if about is not None and not isinstance(about, str):
            return f"{name} {about.name}"
    if hasattr(event, "quotas"):
        return f"{name} {plural(len(event.quotas), 'quota')}"
    if hasattr(event, "names"):
        return f"{name} {plural(len(event.names), 'guest')}"
    if hasattr(event, "hosts"):
        return f"{name} {plural(len(event.hosts), 'host')}"
    if hasattr(event, "policies"):
        return f"{name} {', '.join(policy.name for policy in event.policies)}"
    return f"{name} {getattr(event, 'uid', '') or getattr(event, 'name', '') or getattr(event, 'key', '')}".rstrip()


def _entries(one: FactEntry | StepEntry | CheckpointEntry, other: FactEntry | StepEntry | CheckpointEntry) -> str:
    if isinstance(one, StepEntry) and isinstance(other, StepEntry):
        return _steps(one, other)
    if isinstance(one, FactEntry) and isinstance(other, FactEntry):
        return _events(one.event, other.event)
    texts = [_entry(entry) for entry in (one, other)]
    return f"{texts[0]} versus {texts[1]}" if texts[0] != texts[1] else f"{texts[0]}: contents differ"


def _entry(entry: FactEntry | StepEntry | CheckpointEntry) -> str:
    if isinstance(entry, FactEntry):
        return event_line(entry.event)
    return f"a step of {plural(len(entry.actions), 'action')}" if isinstance(entry, StepEntry) else "a checkpoint"


def _events(one: Event, other: Event) -> str:
    """Name two facts, or the fields by which two facts about the same differ."""
    first, second = event_line(one), event_line(other)
    if first != second or type(one) is not type(other):
        return f"{first} versus {second}"
    fields = [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]
    return f"{first}: {', '.join(fields)} differ{'s' if len(fields) == 1 else ''}"


def _steps(one: StepEntry, other: StepEntry) -> str:
    for mine, yours in zip_longest(one.actions, other.actions):
        if mine != yours:
            return _actions(mine, yours)
    return f"a step at {one.now} (limit {one.limit}) versus at {other.now} (limit {other.limit})"


def _actions(one: Action | None, other: Action | None) -> str:
    """Write two actions, the guest's name once where both are about the same."""
    if one is not None and other is not None and one.uid == other.uid:
        first, second = _action(one), _action(other)
        if first == second:
            fields = [name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name)]
            return f"{one.guest}: {first}, {' and '.join(fields)} differ"
        return f"{one.guest}: {first} versus {second}"
    texts = [NOTHING if action is None else f"{action.guest}: {_action(action)}" for action in (one, other)]
    return " versus ".join(texts)


def _action(action: Action) -> str:
    """Say what happens to the guest in a few words."""
    match action:
        case Bind() | Prepare():
            devices = f" devices {', '.join(map(str, action.devices))}" if action.devices else ""
            return ("" if isinstance(action, Bind) else "prepared on ") + action.host + devices
        case Defer():
            reasons = ", ".join(f"{one.hosts:,} {one.reason.text()}" for one in action.reasons)
            return f"not placed ({reasons})" if reasons else "not placed"
        case Ask():
            return f"{action.asked} is asked about {plural(len(action.hosts), 'host')}"
        case Abandon():
            return f"given up on {action.host}"
        case Evict():
            return f"evicted from {action.host}"
        case Move():
            return f"moved from {action.host} to {action.target}"
        case Nominate():
            victims = f", {plural(len(action.victims), 'guest')} to go" if action.victims else ""
            return f"nominated for {action.host}{victims}" if action.host else "no longer nominated"
