"""Figures, tables and one HTML page of a sweep, from its gathered files alone."""

from rllc.report.folder import draw

__all__ = ["draw"]
