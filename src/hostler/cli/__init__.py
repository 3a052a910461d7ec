"""The command line: reads files, drives the engine, prints answers. It starts in :func:`hostler.cli.main.main`.

Nothing here decides anything. Only click is imported at start; config, engine and rich are imported by the commands
that need them, so that ``hostler --help`` answers at once.
"""
