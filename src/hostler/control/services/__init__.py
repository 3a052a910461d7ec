"""What users, operators and administrators can do, as works over a connection of the store. No HTTP here.

Each service checks the caller's permission, loads rows, lets a pure function decide, and writes rows, facts for the
engine and an audit entry in one transaction.
"""
