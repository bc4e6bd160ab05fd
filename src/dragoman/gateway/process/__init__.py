"""Processes, signals and sockets of a running gateway."""
