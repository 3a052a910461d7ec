"""Models of your own as scorers: the ``/score`` protocol over HTTP, a client, a service, and a network in process."""
