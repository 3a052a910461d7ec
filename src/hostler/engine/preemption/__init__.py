"""Which guests may be evicted for another one, what that costs, and carrying it out."""
