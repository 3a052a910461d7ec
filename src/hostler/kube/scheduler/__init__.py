"""The scheduler: facts go to the engine, its actions to the API, and their outcomes back to the engine.

``loop`` turns facts into actions; the modules of ``actions`` carry them out; ``election`` decides which process may
write; ``process`` assembles one scheduler.
"""
