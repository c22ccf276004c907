"""How far groups survive when the curves move within their errors.

Shape letters: B draws, P parts, K groups, J groups of a draw.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Index = NDArray[np.intp]

TRUSTED = 0.6  # Jaccard below which a group is not to be trusted
READINGS = ((0.85, "highly stable"), (0.75, "stable"), (TRUSTED, "pattern, members doubtful"), (0.0, "do not trust"))


def jaccard(label_P: Index, draw_BP: Index) -> Values:
    """Give for each group of `label_P`, 0 … k−1, the mean over draws of its largest Jaccard index with a group there.

    |A ∩ B| / |A ∪ B|, from 0 to 1 (Hennig, Computational Statistics & Data Analysis 52, 2007); 1/2 or less in a draw
    says that the group is dissolved in it. NaN without draws.
    """
    one_KP = label_P == np.arange(label_P.max() + 1)[:, None]
    if not len(draw_BP):
        return np.full(len(one_KP), np.nan)
    other_BJP = (draw_BP[:, None] == np.arange(draw_BP.max() + 1)[:, None]).astype(np.float64)
    both_BKJ = np.einsum("kp,bjp->bkj", one_KP.astype(np.float64), other_BJP)
    either_BKJ = one_KP.sum(axis=1)[None, :, None] + other_BJP.sum(axis=2)[:, None] - both_BKJ
    return np.asarray((both_BKJ / either_BKJ).max(axis=2).mean(axis=0))


def reading(value: float) -> str:
    """Say what a Jaccard stability is taken for (Hennig's usual reading); empty where it is unknown."""
    return next((text for least, text in READINGS if value >= least), "")


def weighted(label_P: Index, jaccard_K: Values) -> float:
    """Average the stability over parts: an index of a whole clustering that does not depend on the number of draws."""
    return float(jaccard_K[label_P].mean())


def together(draw_BP: Index) -> Values:
    """Give the share of draws in which two parts are in one group, share_PP; its diagonal is 1."""
    return np.asarray(sum((label_P[:, None] == label_P).astype(np.float64) for label_P in draw_BP) / len(draw_BP))


def consensus(share_PP: Values, k: int) -> Index:
    """Cut the average-linkage tree of 1 − share into k groups."""
    from scipy.cluster import hierarchy

    tree = linkage(1 - share_PP, "average")
    return np.asarray(hierarchy.fcluster(tree, k, criterion="maxclust"), dtype=np.intp) - 1


def linkage(dist_PP: Values, how: Literal["average", "ward"]) -> Values:
    """Build a tree from a matrix of distances."""
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    return np.asarray(hierarchy.linkage(squareform(dist_PP, checks=False), how))


def support(share_PP: Values, label_P: Index) -> tuple[Values, Values, Index]:
    """Say for each part how often it is with its own group, with the nearest other one, and which that is.

    Mean share over the other members of the group; a part alone has 1 − its largest share with any other. Without
    another group the second is NaN and the third −1.
    """
    groups: Sequence[int] = np.unique(label_P).tolist()
    alone_PP = share_PP - np.diag(np.diag(share_PP))
    size_K = np.array([np.sum(label_P == group) for group in groups])
    mean_PK = np.stack([alone_PP[:, label_P == group].sum(axis=1) for group in groups], axis=1)
    own_P = np.searchsorted(groups, label_P)
    every_P = np.arange(len(label_P))
    inside_P = size_K[own_P] - 1
    own = np.where(inside_P > 0, mean_PK[every_P, own_P] / np.maximum(inside_P, 1), 1 - alone_PP.max(axis=1))
    mean_PK = mean_PK / size_K
    mean_PK[every_P, own_P] = -1
    rival_P = mean_PK.argmax(axis=1)
    if len(groups) == 1:
        return own, np.full(len(own), np.nan), np.full(len(own), -1)
    return own, mean_PK[every_P, rival_P], np.asarray(groups)[rival_P]
