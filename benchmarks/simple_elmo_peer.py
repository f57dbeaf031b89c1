"""simple_elmo, an implementation in TensorFlow, run by a separate interpreter.

That interpreter needs `pip install tensorflow-cpu tf_keras simple_elmo`. It runs this file as a
script, `python simple_elmo_peer.py FOLDER`, which imports nothing of elmo_bench.
"""

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

VECTORS = "vectors.npy"  # written by the first call: (sentences, layers, tokens, width)


def load(
    python: Path, bilm: Any, sentences: Sequence[Sequence[str]], folder: Path
) -> Callable[[], object]:
    """Start simple_elmo with the weights of `bilm`; each call encodes the sentences once.

    The first call writes its vectors into `folder`. Raises RuntimeError if the process has ended.
    """
    from elmo_bench.encoders.bilm import save

    save(bilm, folder / "model.hdf5")
    (folder / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    environment = os.environ | {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    pipes: Any = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    log = folder / "log.txt"
    with log.open("w") as file:
        process: Any = subprocess.Popen(
            [python, __file__, folder], text=True, env=environment, stderr=file, **pipes
        )

    def run() -> None:
        if process.poll() is None:
            process.stdin.write("\n")
            process.stdin.flush()
        if process.stdout.readline() != "done\n":
            process.kill()
            raise RuntimeError(f"simple_elmo ended:\n{log.read_text()}")

    weakref.finalize(run, process.kill)
    return run


def main(folder: str) -> None:
    """Encode the sentences once for each line of standard input."""
    import logging

    import numpy as np
    import simple_elmo
    import tensorflow as tf
    from simple_elmo.elmo_helpers import weight_layers

    logging.disable()
    out, sys.stdout = sys.stdout, sys.stderr
    sentences = json.loads(Path(folder, "sentences.json").read_text(encoding="utf-8"))
    tf.compat.v1.disable_eager_execution()
    model = simple_elmo.ElmoModel()
    model.load(folder, max_batch_size=len(sentences))
    threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    with tf.compat.v1.Session(config=config) as session:
        model.elmo_sentence_input = weight_layers(
            "input", model.sentence_embeddings_op, use_layers="all"
        )
        session.run(tf.compat.v1.global_variables_initializer())
        for number, _ in enumerate(sys.stdin):
            vectors = model.get_elmo_vectors(sentences, warmup=False, layers="all", session=session)
            if number == 0:
                np.save(Path(folder, VECTORS), vectors)
            print("done", file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
