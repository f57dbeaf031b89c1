"""A config as the command line composes it, writing into a temporary folder, small enough to train in a second."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from elmo_bench.elmo import BiLm, Options, save

CONF = Path(__file__).parents[2] / "conf"
TINY = [
    "encoder.hidden_size=8",
    "task.model.hidden_size=8",
    "embed.num_filters=8",
    "fit.max_epochs=2",
    "trainer=cpu",
    "trainer.enable_progress_bar=false",
]


@pytest.fixture
def tiny(tmp_path, tmp_path_factory):
    """compose(*overrides) -> config of a tiny NER run; `elmo=files` finds a small random biLM."""
    save(
        BiLm(Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4)))),
        tmp_path / "bilm" / "weights.safetensors",
    )

    def build(*overrides):
        run_dir = tmp_path / f"run{len(list(tmp_path.glob('run*')))}"
        run_dir.mkdir()
        base = [*TINY, f"run_dir={run_dir}", f"cache_dir={tmp_path_factory.getbasetemp()}"]
        chosen = ["elmo=files", f"elmo.dir={tmp_path}/bilm"] if not any(o.startswith("elmo=") for o in overrides) else []
        is_generated = not any(o.startswith("data=") or o == "job=evaluate" for o in overrides)
        chosen += ["data.size=2"] if is_generated else []
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("config", [*base, *chosen, *overrides])

    return build
