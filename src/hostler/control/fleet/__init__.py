"""Hosts and their agents: joining, reports, orders, silence, and what follows from it.

``agent_service.AgentService`` is what the agents' routes of REST call, ``operator_actions`` is what operators do to
hosts, and ``duties.Duties`` is what the leader does about hosts by itself. Everything that writes is a work of the
store. ``agents`` handles messages of agents, ``hosts`` the stored hosts; neither imports the three above.
"""
