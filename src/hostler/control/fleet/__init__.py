"""Hosts and their agents: who joins, what they report, what they are ordered, who is silent, and what follows from it.

``fleet.Fleet`` is what the agents' side of REST calls, ``operating`` what operators do to hosts, ``duties.Duties`` what
the holder of the lease does about hosts by itself. Everything that writes is a work of the store.
"""
