"""What all parts of one checkpoint share on one dataset: the residual streams and the losses at w*, each computed once.

Everything is computed in blocks of the planned shape (C, B), so that a chain that stays at w* gives exactly its
reference.

Shapes: C chains, B rows of a minibatch, N rows of the pool, L positions, E residual width, V vocabulary.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rllc.config import Model
from rllc.models import attention, decoder, sharing
from rllc.models.chains import Weights, at_once
from rllc.models.loss import product
from rllc.models.norm import centre
from rllc.task import Sampler

Loss = Callable[[Weights, Tensor, Tensor], Tensor]

SCORE_BLOCK = (1, 32)  # chains and rows of a block where there are no chains


class Pool:
    """One checkpoint on the estimation rows of one dataset.

    `tokens_NL` are the rows; `chains` and `batch` the shape of every block. `loss` gives the loss of rows from what the
    unembedding reads (`decoder.last`) where it is not the cross-entropy of their own tokens (`models.soft`). With other
    `products` than "exact" the frozen unembedding product is taken in bfloat16 (`frozen` holds its matrix so, `weights`
    as it is). Both have an unembedding matrix and bias whatever the model (`decoder.complete`). `tokenizer` is the file
    that says what the tokens are, where it is known.
    """

    def __init__(
        self, weights: Weights, model: Model, tokens_NL: Tensor, *, chains: int, batch: int, products: str = "exact",
        loss: Loss | None = None,
    ) -> None:  # fmt: skip
        self.weights, self.model, self.tokens_NL = decoder.complete(weights), model, tokens_NL
        self.chains, self.batch, self.loss = chains, batch, loss
        unembed = self.weights["unembed"]
        self.frozen = {**self.weights, "unembed": unembed if products == "exact" else unembed.bfloat16()}
        self.tokenizer: Path | None = None
        self._kept: dict[str, Tensor] = {}
        self._large: set[str] = set()
        self._recent: dict[str, tuple[Tensor, Tensor]] = {}
        self._joined: dict[int, Weights] = {}

    @classmethod
    def of(
        cls, weights: Weights, model: Model, rows_NL: NDArray[np.integer[Any]], sampler: Sampler | None,
        *, loss: Loss | None = None,
    ) -> "Pool":  # fmt: skip
        """The pool on which a task is measured; on a GPU where there is one. `sampler` None stands for no chains."""
        device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = getattr(torch, sampler.dtype) if sampler else torch.float32
        chains, batch = (sampler.chains, sampler.batch) if sampler else SCORE_BLOCK
        if sampler and sampler.backend != "jax":
            chains = at_once(chains, batch * rows_NL.shape[1] * model.d_model * dtype.itemsize, device)
        placed = {name: array.to(device, dtype) for name, array in weights.items()}
        tokens_NL = torch.from_numpy(rows_NL.astype(np.int64)).to(device)
        products = sampler.products if sampler else "exact"
        return cls(placed, model, tokens_NL, chains=chains, batch=batch, products=products, loss=loss)

    @property
    def every(self) -> Tensor:
        """All rows as one block, (1, N)."""
        return torch.arange(len(self.tokens_NL), device=self.tokens_NL.device)[None]

    def layer(self, index: int, x_CBLE: Tensor) -> Tensor:
        """A frozen layer."""
        return decoder.layer(self.weights, index, x_CBLE, self.model, joined=self._heads(index))

    def losses(self, weights: Weights, x_CBLE: Tensor, rows_CB: Tensor) -> Tensor:
        """Loss of each row (nats) from the last residual stream, shape (C, B)."""
        last_CBLE = decoder.last(weights, x_CBLE, self.model)
        if self.loss is not None:
            return self.loss(weights, last_CBLE, rows_CB)
        return decoder.losses(weights, last_CBLE, self.tokens_NL[rows_CB])

    def stream(self, layer: int, rows_CB: Tensor) -> Tensor:
        """The residual stream before `layer` at w* on the given rows, shape (C, B, L, E)."""

        def compute(rows_CB: Tensor) -> Tensor:
            if layer == 0:
                return decoder.embed(self.weights, self.tokens_NL[rows_CB], self.model)
            return self.layer(layer - 1, self.stream(layer - 1, rows_CB))

        streams = self.once(f"stream {layer}", compute)
        self.forget(f"stream {layer - 2}")  # two neighbours are enough: a layer's input and its output
        return streams(rows_CB)

    def middle(self, layer: int, rows_CB: Tensor) -> Tensor:
        """The stream between the heads and the MLP of `layer` at w* on the given rows, shape (C, B, L, E)."""

        def compute(rows_CB: Tensor) -> Tensor:
            below = self.stream(layer, rows_CB)
            return decoder.middle(self.weights, layer, below, self.model, joined=self._heads(layer))

        middles = self.once(f"middle {layer}", compute)
        self.forget(f"middle {layer - 1}")
        return middles(rows_CB)

    def content(self, layer: int, rows_CB: Tensor) -> Tensor:
        """What the heads of `layer` read at w* on the given rows, shape (C, B, L, E)."""

        def compute(rows_CB: Tensor) -> Tensor:
            return attention.inputs(self.weights, layer, self.stream(layer, rows_CB), self.model)

        contents = self.once(f"content {layer}", compute)
        self.forget(f"content {layer - 1}")
        return contents(rows_CB)

    def reference(self, rows_CB: Tensor) -> Tensor:
        """The loss of each row at w* (nats), shape (C, B); any C will do here."""

        def compute(rows_CB: Tensor) -> Tensor:
            last = self.stream(self.model.n_layers, rows_CB)
            return self.losses(self.frozen, last, rows_CB)

        return self.once("reference", compute)(rows_CB)

    def centred(self, rows_CB: Tensor) -> Tensor:
        """The last residual stream at w* as the last norm sees it, where there is a next token, (C, B, L − 1, E)."""

        def compute(rows_CB: Tensor) -> Tensor:
            return centre(self.stream(self.model.n_layers, rows_CB)[:, :, :-1], self.model)

        return self.once("centred", compute)(rows_CB)

    def base(self, rows_CB: Tensor) -> Callable[[int, slice], Tensor]:
        """What the frozen stream gives to the logits, before its scale: (n, V) for n tokens of a chain, a fresh copy.

        Kept for the whole pool where that is small enough, else computed for the tokens that are asked for.
        """

        def compute(rows_CB: Tensor) -> Tensor:
            return product(self.centred(rows_CB) * self.weights["final.w"], self.frozen["unembed"])

        logits = self._lookup("base", compute)
        if logits is not None:
            base_CNV = logits(rows_CB).flatten(1, 2)
            return lambda chain, tokens: base_CNV[chain, tokens]
        stream_CNE = self.centred(rows_CB).flatten(1, 2) * self.weights["final.w"]
        return lambda chain, tokens: product(stream_CNE[chain, tokens], self.frozen["unembed"])

    def once(self, name: str, compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """A look-up into what `compute` gives for all rows of the pool.

        Where that is too large to keep, it is computed when asked for, once for each minibatch.
        """
        return self._lookup(name, compute) or partial(self._for_minibatch, name, compute)

    def forget(self, *names: str) -> None:
        """Free what `once` kept under these names."""
        for name in names:
            self._kept.pop(name, None)
            self._recent.pop(name, None)

    def _heads(self, layer: int) -> Weights:
        if layer not in self._joined:
            self._joined[layer] = attention.join(attention.matrices(self.weights, layer))
        return self._joined[layer]

    def _lookup(self, name: str, compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor] | None:
        """A look-up into what is kept for the whole pool; None where that is too large."""
        if name not in self._kept and name not in self._large:
            self._keep(name, compute)
        return None if name in self._large else partial(_rows, self._kept[name])

    @torch.no_grad()
    def _keep(self, name: str, compute: Callable[[Tensor], Tensor]) -> None:
        blocks = self._blocks()
        first = compute(blocks[0])
        if first[0, 0].nbytes * len(self.tokens_NL) > sharing.CACHE_BYTES:
            self._large.add(name)
            return
        kept = first.new_empty(len(blocks), *first.shape)  # no second copy of it all, as torch.cat would need
        kept[0] = first
        for place in range(1, len(blocks)):
            kept[place] = compute(blocks[place])
        self._kept[name] = kept.flatten(0, 2)[: len(self.tokens_NL)]

    @torch.no_grad()
    def _for_minibatch(self, name: str, compute: Callable[[Tensor], Tensor], rows_CB: Tensor) -> Tensor:
        """Compute for these rows, unless they are the very ones that were asked for last."""
        rows, value = self._recent.get(name, (None, None))
        if rows is not rows_CB or value is None:
            value = compute(rows_CB)
            self._recent[name] = (rows_CB, value)
        return value

    def _blocks(self) -> Tensor:
        size = self.chains * self.batch
        count = -(-len(self.tokens_NL) // size)
        rows = torch.arange(count * size, device=self.tokens_NL.device) % len(self.tokens_NL)
        return rows.view(count, self.chains, self.batch)


def _rows(kept: Tensor, rows_CB: Tensor) -> Tensor:
    return kept.index_select(0, rows_CB.flatten()).view(*rows_CB.shape, *kept.shape[1:])
