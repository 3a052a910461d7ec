"""The revisions of the tables, oldest first: modules of ``versions`` that alembic runs (see ``schema``).

A revision is never edited once it is released, and names its tables itself: ``tables.py`` goes on, it does not. What an
older program still needs is removed one release later than it is replaced.
"""
