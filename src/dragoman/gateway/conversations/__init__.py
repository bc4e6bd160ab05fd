"""Conversations kept by the gateway, and those that an upstream keeps."""
