"""What a gateway costs: dragoman, its peers and nginx in front of the same upstream, on one core."""
