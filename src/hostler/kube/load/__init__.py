"""Load for experiments: nodes, pods, gangs and churn, created at a rate on a live cluster, and deleted again."""
