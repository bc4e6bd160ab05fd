"""What was made of earlier requests: one layer that remembers, around functions that know nothing of it."""
