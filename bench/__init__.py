"""How fast the library translates, bytes in to bytes out, beside its peers and beside bare JSON."""
