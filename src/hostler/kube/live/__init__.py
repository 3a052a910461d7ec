"""Read-only use of a live cluster: listed once to answer a question, or followed and recorded."""
