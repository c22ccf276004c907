"""The weights of a decoder under one name for each matrix of a head, in which oracles are written."""

from rllc.config import Model
from rllc.models.chains import Weights
from rllc.models.layout import names


def views(weights: Weights, model: Model) -> Weights:
    """The arrays of `layout.names`, as views: L0H3.q is L0.q[3]."""
    return {name: weights[stack] if at is None else weights[stack][at] for name, stack, at in names(model)}
