"""The VM control plane: users create VMs over REST, the engine places them, agents on hosts run them.

No decision is made here. A request becomes a row and a fact in the log. The leader passes the fact to the engine,
each decision becomes one transaction, and agents fetch their orders.
"""
