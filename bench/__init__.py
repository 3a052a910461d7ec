"""Measurements of Hostler, and readers of the data that they and the tests use."""

from hostler.config import prepare_kernel_cache

# Before anything imports the engine: numba reads its cache folder at import, and would not notice an edited callee.
prepare_kernel_cache()
