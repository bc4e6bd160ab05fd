"""Configurations of other gateways, read into ours; what cannot be carried over is a finding."""
