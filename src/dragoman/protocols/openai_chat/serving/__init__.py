"""A Chat server as its clients see it: what a gateway needs of the protocol, and no codec."""
