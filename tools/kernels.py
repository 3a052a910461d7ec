"""Compile the engine's kernels once, before tests start: a minute of work that no test should wait for.

Without it, the first processes that need a kernel compile it all at once, each for itself.
"""

from __future__ import annotations

from hostler.config import prepare_kernel_cache


def main() -> None:
    """Let engines with the built-in policies decide about small guests."""
    prepare_kernel_cache()  # before the engine is imported: numba reads its cache folder then
    from hostler.control.kernel_warmup import warm_up
    from hostler.control.settings import ControlSettings
    from hostler.engine.policy.policies import BUILT_IN
    from hostler.engine.warmup import warm_kernels
    from hostler.queries import with_mixes

    warm_up(ControlSettings())
    for policy in with_mixes(list(BUILT_IN.values())):
        warm_kernels([policy])


if __name__ == "__main__":
    main()
