"""The built-in plugins, one file each; ``engine.registry`` lists them by name."""
