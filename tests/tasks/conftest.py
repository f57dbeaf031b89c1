"""What tests of tasks share."""

import pytest


@pytest.fixture
def text_file(tmp_path):
    """A function of a text: the path of a file with it."""

    def save(text):
        (tmp_path / "gold").write_bytes(text.encode())
        return tmp_path / "gold"

    return save
