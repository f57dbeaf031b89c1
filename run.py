"""The one command: a config, composed by Hydra, names a job, and the job runs it. `python run.py --help` tells the rest."""

import traceback
from pathlib import Path

import hydra
from hydra.errors import CompactHydraException
from hydra.utils import instantiate
from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(cfg: DictConfig) -> object:
    """Run the chosen job; what a user can mend is said in a sentence, the whole story goes to the run's error.txt."""
    try:
        return instantiate(cfg.job)(cfg)
    except Exception as error:
        if cfg.run_dir:
            Path(cfg.run_dir, "error.txt").write_text(traceback.format_exc(), encoding="utf-8")
        if isinstance(error, ValueError | OSError | FloatingPointError):
            details = f"\n(details: {cfg.run_dir}/error.txt)" if cfg.run_dir else ""
            raise CompactHydraException(f"{error}{details}") from error
        raise


if __name__ == "__main__":
    main()
