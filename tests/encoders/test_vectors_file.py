"""What a killed or failed run leaves of an HDF5 file of vectors."""

import h5py
import numpy as np
import pytest
import torch

from elmo_bench.encoders.vectors_file import write_vectors

ARRAYS = [np.full((2, 3), number, np.float32) for number in range(4)]


def pieces(done):
    yield from ([array] for array in ARRAYS[done:])


def test_killed_behind_the_index(tmp_path):
    output, part = tmp_path / "o.hdf5", tmp_path / "o.hdf5.part"
    write_vectors(output, pieces, {"input": "in"}, "{}")
    output.rename(part)
    write_vectors(
        output, lambda done: [] if done == 4 else pytest.fail("again"), {"input": "in"}, "{}"
    )
    with h5py.File(output) as file:
        assert {*file} == {"0", "1", "2", "3", "sentence_to_index"}


def test_what_fails_before_it_is_written_is_no_error_of_the_file(tmp_path):
    def too_large(done):
        yield from pieces(2)
        raise torch.OutOfMemoryError("CUDA out of memory")

    output = tmp_path / "o.hdf5"
    with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory$"):
        write_vectors(output, too_large, {}, "{}")
    assert (tmp_path / "o.hdf5.part").is_file()
    assert not output.exists()
