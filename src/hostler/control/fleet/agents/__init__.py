"""The agents' side: who may speak for a host, registrations, reports within bounds, and orders."""
