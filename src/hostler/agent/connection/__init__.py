"""The way of an agent to its control plane: who it is, what it says, and what carries it."""
