"""The columnar state of hosts and placements: names, shapes, amounts, labels, guests per domain."""
