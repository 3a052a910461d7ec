"""Policies: built from plugins, and encoded as columns for the kernels."""
