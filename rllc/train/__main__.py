"""Train a run: `python -m rllc.train RUN_FOLDER`, alone or as one of the processes that torchrun or srun starts.

Exit codes: 0 trained, 1 it could not be finished, 2 more processes than rows of a batch, 75 told to stop by SIGUSR1
with its state saved, 143 stopped by SIGTERM.
"""

import argparse
import signal
import sys
from pathlib import Path

import torch

from rllc import train
from rllc.mistake import Mistake, Unfinished
from rllc.train import agent, loop, ranks

MORE = 75


def main() -> int:
    """Parse the command line, and train."""
    parser = argparse.ArgumentParser(prog="python -m rllc.train", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--processes", type=int, default=1, help="to start here; 0 for one for each GPU that is seen")
    parser.add_argument("--parent", type=int, help="the process without which the training stops")
    options = parser.parse_args()
    rank = ranks.find()
    count = 1 if rank.count > 1 else options.processes or _gpus(options.run)
    try:
        ranks.check(max(count, rank.count), train.settings(options.run)[1].batch)
        if count > 1:
            return agent.run(options.run, count, parent=options.parent)
        return _one(options.run, rank, options.parent)
    except (Mistake, Unfinished) as error:
        if rank.first:
            print(f"rllc: {error}", file=sys.stderr)
        return 2 if isinstance(error, Mistake) else 1


def _one(run: Path, rank: ranks.Rank, parent: int | None) -> int:
    """Train in this process, in full float32 whatever the environment says of TF32."""
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    torch.set_float32_matmul_precision("highest")
    if rank.count == 1:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    elif parent is not None:  # with SIGTERM as it is: a process that waits for another rank hears nothing else
        agent.end_without(parent)
    try:
        loop.run(run, rank, parent=parent, told=lambda: bool(asked))
    except loop.Told:
        return MORE
    except RuntimeError as error:
        if not ranks.lost(error, rank):
            raise
        return 1  # of what another rank tells, or who started them all
    return 0


def _gpus(run: Path) -> int:
    """How many GPUs can have a row of the batch of a run each; 1 where there is none."""
    return max(1, min(torch.cuda.device_count(), train.settings(run)[1].batch))


if __name__ == "__main__":
    sys.exit(main())
