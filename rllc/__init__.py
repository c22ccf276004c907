"""Curves of the refined local learning coefficient over a training run."""
