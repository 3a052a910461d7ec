"""What users, operators and administrators can do, as works over a connection of the store. No HTTP here.

Each checks that the caller may, loads, lets a pure function decide, and writes rows, facts for the engine, and an entry
for the audit together.
"""
