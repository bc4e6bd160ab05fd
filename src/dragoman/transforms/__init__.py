"""Neutral -> neutral: names, ids, pairing, schemas, state, order."""
