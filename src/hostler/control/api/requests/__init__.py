"""The path from a request to its response, for all routes: authentication, decoding, limits, metrics, errors."""
