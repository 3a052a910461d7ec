"""Rows by table, as plain functions over a connection, and what these functions share."""
