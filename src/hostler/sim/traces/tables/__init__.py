"""Our own tables of guests and hosts, CSV or Parquet: to a workload, and back so that reading gives it again."""
