"""All that influences a decision, in one place: what a fork copies and a checkpoint writes."""
