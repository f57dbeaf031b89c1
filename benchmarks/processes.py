"""Whole processes: start-up time of commands, and peak memory of a biLM.

`python -m benchmarks.processes MEANS SIZE SENTENCES SCRATCH [PEERS]` is one of the measured
processes: it prints its peak memory in MB.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

from .timing import Comparison, Setting

ROOT = Path(__file__).parents[1]


def compare(setting: Setting) -> Iterator[Comparison]:
    """Start-up, then memory for each size of biLM."""
    folders = [f"cache_dir={setting.scratch}", f"hydra.run.dir={setting.scratch}/run"]
    stop = "+task.callbacks=[{_target_:benchmarks.first_step.Stop}]"
    first_step = ["run.py", "task=ner", "trainer=cpu", stop, *folders]
    commands = {
        "run.py --help": ["run.py", "--help"],
        "run.py task=ner, until its first training step": first_step,
    }
    imports = ["torch", "torch, pytorch_lightning", "elmo_bench", "elmo_bench.jobs.report"]
    imports = [] if setting.quick else imports
    # These also exit at once: Python's own shutdown takes half a second after torch.
    commands |= {f"import {name}": ["-c", f"import {name}, os; os._exit(0)"] for name in imports}
    yield Comparison(
        "start-up",
        {name: partial(_python, *arguments) for name, arguments in commands.items()},
    )
    file = setting.scratch / "sentences.json"
    file.write_text(json.dumps(setting.sentences[: setting.batch_size]), encoding="utf-8")
    for size in setting.sizes:
        means: dict[str, Callable[[], object]] = {}
        for name in (
            "ours",
            "weights alone",
            *(["AllenNLP"] if setting.peers else []),
        ):
            peers = [setting.peers] if setting.peers else []
            arguments = map(str, [name, size, file, setting.scratch, *peers])
            command = partial(_python, "-m", "benchmarks.processes", *arguments)
            means[name] = cache(command)  # one repeat is enough
        yield Comparison(
            f"biLM {size}, memory", means, measure=lambda call: float(str(call())), measured="MB"
        )


def _python(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def main(name: str, size: str, sentences: str, scratch: str, peers: str | None = None) -> None:
    """Load a biLM, run it on the sentences, and print this process's peak memory in MB."""
    import torch

    from elmo_bench.encoders.bilm import bilm
    from elmo_bench.text.chars import char_ids

    from . import allennlp

    batch = json.loads(Path(sentences).read_text(encoding="utf-8"))
    setting = Setting(
        True, [size], batch, len(batch), Path(scratch), Path(peers) if peers else None
    )
    model = setting.bilm(size)
    run = {
        "ours": lambda: model,
        "weights alone": lambda: None,
    }.get(name)
    chosen = run() if run else allennlp.load(Path(str(peers)), model, Path(scratch))
    if run is None:
        del model
    if chosen is not None:
        with torch.no_grad():
            (chosen.read if isinstance(chosen, bilm.BiLm) else chosen)(char_ids(batch))
    print(_peak())


def _peak() -> float:
    """Peak memory in MB; on Linux `ru_maxrss` is not used, as it includes the parent's peak."""
    status = Path("/proc/self/status")
    if status.is_file():
        fields = dict(
            line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines()
        )
        return int(fields["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


if __name__ == "__main__":
    main(*sys.argv[1:])
