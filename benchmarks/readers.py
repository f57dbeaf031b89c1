"""Opens one layer store from eight processes at once and kills some; used by `benchmarks.kills`."""

import contextlib
import io
import multiprocessing
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

COUNT = 8
LAYERS = [[2], [0, 1, 2], [0, 2]]  # of the stores that a process opens, in this order


def killed(count: int, rng: random.Random, scratch: Path) -> Iterator[tuple[float, list[str]]]:
    """Run rounds of eight processes until `count` are killed.

    Yields, for each kill, its time in seconds and the faults of its round.
    """
    seconds = 0.0
    while count > 0 or not seconds:
        folder = scratch / f"{count}"
        processes = [
            multiprocessing.Process(target=read, args=(folder, rng.random())) for _ in range(COUNT)
        ]
        begun = time.perf_counter()
        for process in processes:
            process.start()
        # The first round measures the time of a round: nothing is killed.
        victims = rng.sample(processes, min(count, rng.randint(1, COUNT - 1)) if seconds else 0)
        moments = sorted(rng.uniform(0, seconds) for _ in victims)
        for process, moment in zip(victims, moments, strict=True):
            time.sleep(max(0.0, begun + moment - time.perf_counter()))
            process.kill()
        for process in processes:
            process.join()
        # A process that ended before its kill does not count as killed.
        dead = [m for m, victim in zip(moments, victims, strict=True) if victim.exitcode == -9]
        wrong = [
            f"process {number} ended with {process.exitcode}: {folder}"
            for number, process in enumerate(processes)
            if process.exitcode not in (0, -9)
        ]
        if not victims and wrong:
            raise SystemExit(f"no reader was killed, but {wrong}")
        seconds = seconds or time.perf_counter() - begun
        count -= len(dead)
        yield from ((moment, wrong) for moment in dead)
        if not wrong:
            shutil.rmtree(folder)


def read(folder: Path, seed: float) -> None:
    """Open stores of the same sentences with different layers; compare them with `encode`."""
    import torch

    from elmo_bench.encoders import build_store, encode
    from elmo_bench.encoders.bilm import BiLm, Options

    torch.set_num_threads(1)
    torch.manual_seed(0)
    bilm = BiLm(Options(cell_size=64, projection_size=64, filters=((1, 4), (3, 4)))).eval()
    sentences = [[f"w{k}", "w", f"v{k % 7}"] * (1 + k % 9) for k in range(500)]
    expected = encode(bilm, sentences)
    order = random.Random(seed).sample(range(len(sentences)), len(sentences))
    for layers in LAYERS:
        with contextlib.redirect_stdout(io.StringIO()):  # progress bars
            store = build_store(bilm, sentences, layers, folder)
        if store is None:
            raise OSError(f"{folder}: no store")
        for number in order:
            batch = [sentences[number]]
            vectors = store(batch)
            if not torch.equal(vectors[:, 0], expected[number][layers]):
                raise ValueError(f"{folder}: different vectors for {sentences[number]}")
        store.close()
