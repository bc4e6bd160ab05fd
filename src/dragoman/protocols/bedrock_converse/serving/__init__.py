"""What a gateway needs of Converse beside its codec. Only upstreams speak it, so it has no routes."""
