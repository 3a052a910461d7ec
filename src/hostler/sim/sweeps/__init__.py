"""Cells and sweeps: single runs as plain data, in this process or many, and what compares them.

``cells`` are runs, ``grids`` say which, ``executors`` do them, ``sweep`` keeps their results; ``comparison`` and
``statistics`` say how sure a difference is.
"""
