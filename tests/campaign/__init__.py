"""Deterministic campaigns: a scheduler, or several, on an API server in memory, with everything that can go wrong.

``plan`` draws from a seed what happens and when, ``play`` runs it in virtual time, ``verdict`` looks at the result. A
failure is reproduced by its seed: ``python -m tests.campaign --seed N``.
"""
