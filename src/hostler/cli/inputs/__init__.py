"""What commands read from files: documents to a fleet, plugins of third parties, and all problems of files at once."""
