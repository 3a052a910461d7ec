"""The agent's pure core: orders, observations and outcomes go in; actions and reports come out. No clock, no I/O.

``decisions`` is its face. ``verbs`` says what one VM needs next, ``plan`` which actions start now, ``admission`` what
fits, ``settlement`` what follows without an action. ``state`` is all that it knows. ``reports`` and ``message_size``
turn that into messages for the control plane.
"""
