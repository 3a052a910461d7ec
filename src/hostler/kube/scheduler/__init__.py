"""The scheduler: facts to the engine, its actions to the API server, and what came of them back to the engine.

``loop`` turns facts into actions; ``binder``, ``evictor``, ``statuses`` and ``reports`` carry them out; ``election``
says who may; ``process`` puts one process together.
"""
