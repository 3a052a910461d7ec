"""For all tests: compiled kernels live in the folder that is named by a hash of their sources, as for users."""

from __future__ import annotations

from hostler.config import prepare_kernel_cache

# Before any test imports the engine: numba reads its cache folder at import, and would not notice an edited callee.
prepare_kernel_cache()
