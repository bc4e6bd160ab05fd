"""Conversations that clients continue by id: stored by the gateway, or by an upstream."""
