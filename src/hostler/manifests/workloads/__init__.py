"""Objects that create pods: their existing pods, how many are missing, and the missing ones as guests."""
