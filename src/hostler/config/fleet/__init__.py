"""Files of kind ``Fleet``: hosts and guests in our own format. ``input`` reads them, ``output`` writes them.

``file``, ``file_terms`` and ``file_tenancy`` describe the format key by key; the other modules turn entries into the
model.
"""
