"""Samplers of the localised posterior, one a file."""
