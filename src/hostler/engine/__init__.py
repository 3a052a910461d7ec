"""The pure engine: facts in, decisions out. It does no I/O, reads no clock and owns no thread."""

from hostler.engine.engine import Engine
from hostler.engine.engine_view import EngineView
from hostler.engine.framework import Wake
from hostler.engine.policy.policies import BUILT_IN, DEFAULT_POLICY, find_policy, typical_mix
from hostler.engine.policy.registry import ENTRY_POINT_GROUP, Registry
from hostler.engine.view import ClusterView

__all__ = [
    "BUILT_IN", "DEFAULT_POLICY", "ENTRY_POINT_GROUP", "ClusterView", "Engine", "EngineView", "Registry", "Wake",
    "find_policy", "typical_mix",
]  # fmt: skip
