"""The hot loops of the engine: numba functions over plain arrays."""
