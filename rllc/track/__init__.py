"""Shows a sweep in Weights & Biases while it runs or afterwards; the record stays in the sweep's own files."""

from rllc.track.asked import check, shown
from rllc.track.collector import Collector, Shown

__all__ = ["Collector", "Shown", "check", "shown"]
