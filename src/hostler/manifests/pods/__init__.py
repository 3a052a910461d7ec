"""Kubernetes Pod to Guest and back: ``guests`` reads, ``output`` writes, the other modules each have one subject."""
