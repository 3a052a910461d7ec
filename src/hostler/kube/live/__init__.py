"""A live cluster looked at without a write: listed once and asked questions, or followed and recorded."""
