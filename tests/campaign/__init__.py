"""Deterministic campaigns: one or more schedulers on an API server in memory, with every kind of failure.

``plan`` draws from a seed what happens and when, ``play`` runs it in virtual time, ``verdict`` checks the result. A
failure is reproduced by its seed: ``python -m tests.campaign --seed N``.
"""
