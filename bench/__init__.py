"""Measurements of Hostler, and readers of the data that they and the tests use."""
