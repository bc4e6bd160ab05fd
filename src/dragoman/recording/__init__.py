"""Exchanges recorded whole, on both wires, with secrets masked before anybody sees or stores them."""
