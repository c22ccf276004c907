import itertools
import json
import random

from rllc.track.losses import SPACING, Losses


def lines(steps):
    return [{"step": step, "loss": 1 / (1 + step)} for step in steps]


def write(file, steps, torn=""):
    file.write_text("".join(json.dumps(line) + "\n" for line in lines(steps)) + torn)


def test_new_losses_are_given_once_and_a_torn_line_waits(tmp_path):
    file, losses = tmp_path / "metrics.jsonl", Losses()
    assert list(losses.read(file)) == []
    write(file, [0, 10], '{"step": 20, "lo')
    assert list(losses.read(file)) == [(0, {"train/loss": 1.0}), (10, {"train/loss": 1 / 11})]
    assert list(losses.read(file)) == []
    write(file, [0, 10, 20])
    assert list(losses.read(file)) == [(20, {"train/loss": 1 / 21})]
    assert list(losses.read(file, final=True)) == []


def test_a_resumed_training_writes_steps_again_and_they_are_shown_once(tmp_path):
    file, losses = tmp_path / "metrics.jsonl", Losses()
    write(file, range(0, 60, 10))
    first = [step for step, _ in losses.read(file)]
    write(file, range(0, 30, 10))
    assert list(losses.read(file)) == []
    write(file, range(0, 90, 10))
    assert first + [step for step, _ in losses.read(file)] == list(range(0, 90, 10))


def test_what_is_shown_of_a_long_training_does_not_depend_on_when_it_is_read():
    whole = lines(range(0, 1_000_001, 10))
    at_once = [step for step, _ in Losses().take(whole, final=True)]
    rng, losses, shown, stop = random.Random(0), Losses(), [], 0
    while stop < len(whole):
        stop += rng.randrange(1, 9000)
        shown += [step for step, _ in losses.take(whole[:stop], final=stop >= len(whole))]
    assert shown == at_once
    assert at_once[: SPACING + 1] == list(range(0, 10 * SPACING + 1, 10))
    assert at_once[-1] == 1_000_000
    assert all(b - a <= max(10, a / SPACING + 10) for a, b in itertools.pairwise(at_once))
    assert len(at_once) < 3500
