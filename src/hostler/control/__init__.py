"""The VM control plane: users create VMs over REST, the engine places them, agents on hosts carry it out.

No decision is made here. A request becomes a row and a fact in the log, the holder of the lease tells the engine, what
it decides becomes one transaction, and agents fetch their orders.
"""
