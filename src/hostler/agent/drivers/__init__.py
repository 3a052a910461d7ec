"""Hypervisors behind one protocol: ``driver`` says what an agent needs of them."""
