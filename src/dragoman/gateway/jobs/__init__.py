"""Work that outlives its request: background responses and batches, on one queue."""
