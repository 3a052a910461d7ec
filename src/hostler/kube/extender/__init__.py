"""kube-scheduler's HTTP extender protocol, from both sides.

``asking`` asks other people's extenders before our scheduler decides. ``serving`` answers an unmodified kube-scheduler,
so that it places pods by a policy of ours; ``advising`` is what it knows.
"""
