"""The simulator: traces and scenarios in, decisions of the real engine, figures out.

Path of one guest: a reader or a generator makes a ``Workload`` (columns), a run feeds it to an engine in virtual time,
and an outcome is made from what happened. Comparisons, sweeps and reports work on outcomes alone.
"""
