"""The version, in the one place from which the build and the program read it."""

__version__ = "0.1.0"
