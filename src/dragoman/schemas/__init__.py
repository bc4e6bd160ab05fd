"""JSON Schema: walk, resolve, merge, downgrade for a target, check arguments."""
