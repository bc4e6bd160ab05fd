"""Bytes <-> frames; and `splice`, which carries deltas from frame to frame without decoding."""
