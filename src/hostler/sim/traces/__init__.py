"""Readers of traces, one file per format; each makes a ``Workload``."""
