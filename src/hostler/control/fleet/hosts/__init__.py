"""Stored hosts: their content and writes, silence and proofs, drains, devices and problems."""
