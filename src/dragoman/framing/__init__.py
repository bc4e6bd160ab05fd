"""Bytes <-> frames; and `splice`, which carries text deltas from frame to frame without decoding."""
