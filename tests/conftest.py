"""What tests share: where the fixtures of the original lie (outside the project), and random numbers that do not change."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests are small: threads would only wait for each other

os.environ.pop("SLURM_NTASKS", None)  # a job of SLURM may run the tests; their runs are no tasks of it

import pytest
import torch

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def fixtures() -> Path:
    """Golden vectors of the original and figures of the official scorers; a stranger's clone has none."""
    if not (SHARED / "fixtures").is_dir():
        pytest.skip("the golden fixtures are not on this machine")
    return SHARED / "fixtures"


@pytest.fixture
def corpora() -> Path:
    """Real corpora in their official formats; a stranger's clone has none."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the real corpora are not on this machine")
    return SHARED / "data"


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
