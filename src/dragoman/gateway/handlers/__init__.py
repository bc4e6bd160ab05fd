"""What answers a route: each module reads top-down.

Routes are declared in `protocols/*/server.py`, those of the gateway itself in `internal_routes.py`.
"""
