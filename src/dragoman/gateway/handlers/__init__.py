"""What answers a route: each module reads top-down."""
