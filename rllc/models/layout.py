"""Names, axes and shapes of a decoder's arrays: one flat naming scheme over a stacked storage.

An axis is a letter: v vocabulary, l positions, e residual width, h heads, g groups of heads that share keys and values,
k head width, m inner width of the MLP.
"""

from collections.abc import Iterator

from rllc.config import Model

OF_HEADS = ("q", "o", "bq")  # stacked over heads; the output bias and the norms belong to no head
OF_GROUPS = ("k", "v", "bk", "bv")  # stacked over the groups; without grouping each head is one
MATRICES = ("q", "k", "v", "o", "bq", "bk", "bv")

_LAYER = {
    "ln1.w": "e", "ln1.b": "e", "q": "hek", "k": "gek", "v": "gek", "o": "hke", "bq": "hk", "bk": "gk", "bv": "gk",
    "bo": "e", "ln2.w": "e", "ln2.b": "e", "mlp.in": "em", "mlp.gate": "em", "mlp.bin": "m", "mlp.bgate": "m",
    "mlp.out": "me", "mlp.bout": "e",
}  # fmt: skip
_ABOVE = {"final.w": "e", "final.b": "e", "unembed": "ev", "unembed.b": "v"}


def axes(model: Model) -> dict[str, str]:
    """Names and axes of the stacked arrays, in the order of the forward pass."""
    mlp = ("ln2.w", "ln2.b", "mlp.in", "mlp.gate", "mlp.bin", "mlp.bgate", "mlp.out", "mlp.bout")
    absent = {
        *(() if model.norm == "layer" else ("ln1.b", "ln2.b", "final.b")),
        *(() if model.bias_qkv else ("bq", "bk", "bv")),
        *(() if model.bias_o else ("bo",)),
        *(() if model.d_mlp else mlp),
        *(() if model.gated else ("mlp.gate", "mlp.bgate")),
        *(() if model.bias_mlp else ("mlp.bin", "mlp.bgate", "mlp.bout")),
        *(() if model.bias_unembed else ("unembed.b",)),
        *(("unembed",) if model.tied else ()),
    }
    table = {"embed": "ve"} | ({} if model.positions == "rotary" else {"pos": "le"})
    for layer in range(model.n_layers):
        table |= {f"L{layer}.{kind}": letters for kind, letters in _LAYER.items() if kind not in absent}
    return table | {name: letters for name, letters in _ABOVE.items() if name not in absent}


def sizes(model: Model) -> dict[str, int]:
    """The length of each axis."""
    return {
        "v": model.d_vocab, "l": model.n_ctx, "e": model.d_model, "h": model.n_heads, "g": groups(model),
        "k": model.d_head, "m": model.d_mlp,
    }  # fmt: skip


def shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the stacked arrays, in the order of the forward pass."""
    size = sizes(model)
    return {name: tuple(size[letter] for letter in letters) for name, letters in axes(model).items()}


def groups(model: Model) -> int:
    """How many heads have keys and values of their own, or groups of heads that share them."""
    return model.n_kv or model.n_heads


def names(model: Model) -> Iterator[tuple[str, str, int | None]]:
    """Each flat name with the stacked array that holds it and its place there: ("L0H3.q", "L0.q", 3).

    A head is a query head: where heads share keys and values, L0H3 is q, bq and o alone, and L0G1 the k, v, bk, bv of
    heads n_heads/n_kv · 1 and on.
    """
    group = "H" if groups(model) == model.n_heads else "G"
    for name, shape in shapes(model).items():
        layer, _, kind = name.partition(".")
        if kind in MATRICES:
            owner = "H" if kind in OF_HEADS else group
            yield from ((f"{layer}{owner}{place}.{kind}", name, place) for place in range(shape[0]))
        else:
            yield name, name, None


def tied(model: Model) -> dict[str, str]:
    """Each further name of an array with its first: the unembedding where it is the embedding."""
    return {"unembed": "embed"} if model.tied else {}
