"""What a step costs on a decoder of Pythia's shape: rllc's own form of it against the same weights as a torch module.

    python bench/decoder.py [--size 70m] [--context 256] [--chains 2] [--batch 1] [--rounds 3]

The module is transformers' own GPTNeoXForCausalLM, taken as any user's module is (`models.module`). A module knows
whole tensors alone: where rllc moves one head, it has to move the fused matrices of all heads of a layer. Both sides
first have to agree on the loss. A line tells the CPU seconds of one loss and gradient for each chain, the least of the
rounds, and how many times less than the module's that is; what is computed once per checkpoint and dataset is apart.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from rllc.models import decoder, hf
from rllc.models.module import ModulePart
from rllc.models.pool import Pool
from rllc.models.restriction import restrict

SIZES = {"14m": (6, 128, 4), "70m": (6, 512, 8), "160m": (12, 768, 12), "410m": (24, 1024, 16)}
PARTS = {  # ours, and the nearest part of the module
    "one head": ("L{layer}H2", "gpt_neox.layers.{layer}.attention.*"),
    "all heads of a layer": ("L{layer}H*+L{layer}.bo", "gpt_neox.layers.{layer}.attention.*"),
    "an MLP": ("L{layer}.mlp", "gpt_neox.layers.{layer}.mlp.*"),
}


def row_losses(module: nn.Module, tokens_BL: Tensor) -> Tensor:
    """Mean next-token cross-entropy (nats) of each row, (B,)."""
    logits = module(tokens_BL).logits[:, :-1]
    return F.cross_entropy(logits.transpose(1, 2), tokens_BL[:, 1:], reduction="none").mean(1)


def cpu_seconds(call: Callable[[], object], rounds: int) -> float:
    """The least CPU time of a call, which other load on the machine disturbs less than wall time."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def step(potential: Any, rows_CB: Tensor) -> None:
    """One loss and gradient of every chain, as a backend asks for them."""
    live = [array.expand(len(rows_CB), *array.shape).clone().requires_grad_() for array in potential.start]
    torch.autograd.grad(potential.losses(live, rows_CB).mean(1).sum(), live, materialize_grads=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="70m")
    for name, value in (("context", 256), ("chains", 2), ("batch", 1), ("rounds", 3), ("rows", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(1)
    layers, width, heads = SIZES[options.size]
    config = GPTNeoXConfig(
        vocab_size=50304, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, max_position_embeddings=options.context,
    )  # fmt: skip
    torch.manual_seed(0)
    module = GPTNeoXForCausalLM(config).eval()
    model = hf.describe(config.to_dict(), "config")
    weights = hf.load(module.state_dict(), model, "module")
    tokens = torch.randint(50304, (options.rows, options.context))
    pool = Pool(weights, model, tokens, chains=options.chains, batch=options.batch)
    with torch.no_grad():
        apart = (decoder.forward(weights, tokens[None, :2], model)[0] - row_losses(module, tokens[:2])).abs().max()
    assert apart < 1e-4, f"the losses differ by {apart:.1e}"
    rows_CB = torch.arange(options.chains * options.batch).view(options.chains, -1) % options.rows
    once = cpu_seconds(lambda: pool.reference(rows_CB), 1)
    print(f"once per checkpoint and dataset: {once / options.rows:.2f} s a row")
    for layer in (layers // 2, layers - 1):
        for what, (mine, other) in PARTS.items():
            ours = restrict(pool, mine.format(layer=layer))
            part = other.format(layer=layer)
            theirs = ModulePart(module, row_losses, tokens, part, chains=options.chains, batch=options.batch)
            found = []
            for potential in (ours, theirs):
                step(potential, rows_CB)  # what is computed once
                found.append(cpu_seconds(lambda p=potential: step(p, rows_CB), options.rounds) / options.chains)
            a, b = found
            print(f"layer {layer}, {what:21} {a:6.3f} s, module {b:6.3f} s, {b / a:5.1f} ×", flush=True)


if __name__ == "__main__":
    main()
