"""Names and shapes of the attention-only transformer's arrays: one flat naming scheme over a stacked storage."""

from collections.abc import Iterator

from rllc.config import Model

MATRICES = ("q", "k", "v", "o", "bq", "bk", "bv")  # of one head; the output bias and the LayerNorms belong to no head


def shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the stacked arrays, in the order of the forward pass."""
    heads, width, key = model.n_heads, model.d_model, model.d_head
    table: dict[str, tuple[int, ...]] = {"embed": (model.d_vocab, width), "pos": (model.n_ctx, width)}
    for layer in range(model.n_layers):
        table |= {f"L{layer}.ln1.w": (width,), f"L{layer}.ln1.b": (width,)}
        table |= {f"L{layer}.{name}": (heads, width, key) for name in "qkv"}
        table |= {f"L{layer}.o": (heads, key, width)}
        table |= {f"L{layer}.b{name}": (heads, key) for name in "qkv"}
        table |= {f"L{layer}.bo": (width,)}
    return table | {
        "final.w": (width,),
        "final.b": (width,),
        "unembed": (width, model.d_vocab),
        "unembed.b": (model.d_vocab,),
    }


def names(model: Model) -> Iterator[tuple[str, str, int | None]]:
    """Each flat name with the stacked array that holds it and its place there: ("L0H3.q", "L0.q", 3)."""
    for name in shapes(model):
        layer, _, kind = name.partition(".")
        if kind in MATRICES:
            yield from ((f"{layer}H{head}.{kind}", name, head) for head in range(model.n_heads))
        else:
            yield name, name, None
