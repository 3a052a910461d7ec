"""Tools for those who work on Hostler; users need none of them."""
