"""What a protocol tells a gateway about its own server: contracts as records of functions."""
