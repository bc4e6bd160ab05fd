"""What dialects share: the scanner, the parser and rendering."""
