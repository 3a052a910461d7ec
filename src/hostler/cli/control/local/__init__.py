"""Commands that run on this machine: services, agents, fleets, and the files of a database."""
