"""What processes say about themselves while they run; shared by all fronts and agents."""
