"""The command line: `elmo-bench`, or `python run.py`. Slow imports come after short answers."""

import logging
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from elmo_bench import COMMAND, CONF, INTERNAL, __version__
from elmo_bench.terminal import signals

LOOKS = {"--dry-run": "true", "--download-only": "download"}  # option -> dry_run


def main() -> None:
    """Run the command of `sys.argv`."""
    signals.stop_in_a_line()
    signals.end_with_parent()
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its cache of fonts
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"elmo-bench {__version__}\n")
        return
    if any(argument.startswith(("--config-dir", "-cd")) for argument in arguments):
        # The user's configs may name code in the working folder, which may contain downloads.
        sys.path.append(str(Path.cwd()))
    import hydra

    from elmo_bench.settings import advice, hydra_private, targets

    if "--help" in arguments or "-h" in arguments:
        sys.stdout.write("\n".join(_help(arguments)) + "\n")
        return
    wrong = advice.before(arguments)
    if wrong:
        sys.exit("\n".join(wrong))
    advice.explain_errors()
    for option, dry_run in LOOKS.items():
        if option in arguments:
            sys.argv.remove(option)
            os.environ["ELMO_BENCH_DRY_RUN"] = dry_run
    sys.argv[1:] = advice.as_sweep(sys.argv[1:])
    of_hydra = hydra_private.OF_VERSION | targets.OF_LOGGING
    while True:
        try:
            hydra.main(config_path=str(CONF), config_name="config", **of_hydra)(run)()
        except advice.SetAsideError as error:
            sys.argv[1:] = error.arguments
        else:
            break


def _help(arguments: Sequence[str]) -> list[str]:
    """Return the lines of `--help`: of a job, if the command names one, or of all."""
    from elmo_bench.settings import advice

    jobs = [each.removeprefix("job=") for each in arguments if each.startswith("job=")]
    if not jobs:
        return [help_text()]
    lines = [advice.help_of_job(jobs[-1])]
    if jobs[-1] == "train":
        from elmo_bench.settings import help as of_settings

        lines += of_settings.of_options(arguments)
    return lines


def run(cfg: Any) -> object:
    """Run a config's job; what a user can mend is said in a sentence, with more in error.txt."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from elmo_bench.runs import leaves_error
    from elmo_bench.settings.advice import MENDABLE
    from elmo_bench.settings.check import expand_home
    from elmo_bench.settings.schema import WITHOUT_A_MODEL
    from elmo_bench.settings.targets import instantiate

    if cfg.get("dry_run"):  # only in sweeps with another launcher than ours
        return None
    expand_home(cfg)
    try:
        with leaves_error(cfg.run_dir):
            job = instantiate({key: value for key, value in cfg.job.items() if key != "name"})
            if cfg.job.get("name") not in WITHOUT_A_MODEL:
                from elmo_bench.build import process  # imports torch

                process.prepare(tf32=cfg.tf32, deterministic=bool(cfg.trainer.deterministic))
            return job(cfg)
    except Exception as error:
        if is_out_of_memory(error):
            first_line = str(error).partition("\n")[0]
            error = MemoryError(f"too little memory: {first_line}")
        if not isinstance(error, MENDABLE):
            raise
        if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.RUN:
            sys.exit(message(error, cfg))
        # A sweep in one process goes on.
        raise ValueError(message(error, cfg)) from error


def message(error: Exception, cfg: Any) -> str:
    """Return what a person is told of an error: what is wrong, and where to read more."""
    from elmo_bench.settings.advice import no_cache
    from elmo_bench.terminal import plain_lines

    failure = Path(cfg.run_dir, "error.txt") if cfg.run_dir else None
    has_details = failure and failure.is_file() and failure.stat().st_size
    details = f"\n(details: {cfg.run_dir}/error.txt)" if has_details else ""
    return plain_lines(f"{error}{no_cache(error, cfg)}{details}")


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means out of memory; torch has several exceptions for it."""
    phrases = ("out of memory", "can't allocate memory", "Cannot allocate memory")
    is_torchs = isinstance(error, RuntimeError) and any(words in str(error) for words in phrases)
    return is_torchs or isinstance(error, MemoryError)


def help_text() -> str:
    """Return Hydra's text of `--help`; Hydra spends most of its time listing the same folders."""
    from omegaconf import OmegaConf

    lines = ""
    for group in sorted(path for path in CONF.iterdir() if path.is_dir()):
        if group.name == "hydra":
            continue
        options = list[str]()
        for path in sorted(group.rglob("*.yaml")):
            option = path.relative_to(group).with_suffix("")
            if INTERNAL.isdisjoint(option.parent.parts):
                options.append(option.as_posix())
        lines += f"{group.name}: {', '.join(options)}\n"
    template = OmegaConf.load(CONF / "config.yaml").hydra.help.template
    template = template.replace("python run.py", shlex.join(COMMAND))
    return Template(template).substitute(APP_CONFIG_GROUPS=lines)
