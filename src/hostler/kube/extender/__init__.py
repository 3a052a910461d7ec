"""kube-scheduler's HTTP extender protocol, both sides.

``extenders`` calls third-party extenders before our scheduler decides. ``server`` answers an unmodified kube-scheduler,
so that it places pods by a Hostler policy; ``adviser`` computes its answers.
"""
