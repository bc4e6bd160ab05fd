"""Tool calls written as text."""
