"""Recorded runs: written as lines, replayed, and redacted for sharing."""
