"""The network that is shipped with the package, as a policy beside those of plugin files."""

from __future__ import annotations

from hostler.runtime.plugin_files import OwnPlugins

__all__ = ["with_network"]

_NETWORK = "mlp"


def with_network(own: OwnPlugins, policy: str) -> OwnPlugins:
    """Add the policy ``mlp``, the network that is shipped with the package, if it is requested."""
    if policy != _NETWORK or policy in own.policies:
        return own
    from hostler.sim.scorer.plugin import MlpScorer, mlp_policy

    return OwnPlugins({**own.factories, MlpScorer.name: MlpScorer}, {**own.policies, _NETWORK: mlp_policy()})
