"""Every reason that the engine gives is declared: with a text, a resolvability, and its cures or an explicit none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hostler.engine
from hostler.engine.policy.registry import KERNEL_FILTERS, REASONS, Registry
from hostler.engine.preemption.dry_runs import is_resolvable
from hostler.model import Reason
from hostler.model.reasons import NO_CURE, ReasonKind, Wake

# What no host's filter says, so no event of a host cures it. A new reason without cures must be added here.
WITHOUT_CURE = {
    ("guest", "is_leaving"), ("quota", "quota_exceeded"), ("ask", "refused_by"),
    ("gang", "outside_the_domain"), ("gang", "no_domain"), ("gang", "gang_incomplete"),
}  # fmt: skip
# As kube-scheduler's UnschedulableAndUnresolvable has it; everything else that a kernel filter says can be resolved.
RESOLVABLE = {
    ("resources", "insufficient"), ("devices", "insufficient_devices"), ("ports", "port_taken"),
    ("spread", "skew_too_large"), ("guest_affinity", "anti_affinity"), ("guest_affinity", "existing_anti_affinity"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REASONS.values(), ids=lambda kind: f"{kind.plugin}-{kind.code}")
def test_reason_has_text_and_cures_or_explicit_none(kind: ReasonKind) -> None:
    assert kind.meaning.endswith(".")
    assert kind.code == kind.code.lower().replace(" ", "_")
    assert kind.cures <= frozenset(Wake)
    assert (kind.cures == NO_CURE) == ((kind.plugin, kind.code) in WITHOUT_CURE)


def test_resolvable_reasons_are_those_that_evictions_cure() -> None:
    assert {key for key in REASONS if is_resolvable(Reason(*key))} == RESOLVABLE


def test_undeclared_reason_is_unresolvable() -> None:
    assert not is_resolvable(Reason("somebody_elses_filter", "busy"))


def test_every_filter_declares_reasons_under_its_own_name() -> None:
    filters, _ = Registry.names()
    assert set(filters) <= {plugin for plugin, _ in REASONS}
    assert set(KERNEL_FILTERS) <= {plugin for plugin, _ in REASONS}


def test_every_reason_that_the_engine_makes_is_declared() -> None:
    """Read the sources: each literal code in ``Reason(plugin, "code", …)`` is declared, whatever names the plugin."""
    codes = {code for _, code in REASONS} | {"fits"}
    made = set()
    for path in Path(hostler.engine.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Reason":
                made |= {arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)}
    assert made
    assert made <= codes
