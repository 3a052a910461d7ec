"""The revisions of the tables, oldest first: modules of ``versions`` that alembic runs (see ``schema``).

A revision is never edited after its release, and names its tables itself: ``tables.py`` changes, a revision does not.
What an older program still needs is removed one release later than it is replaced.
"""
