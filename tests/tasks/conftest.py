"""What tests of tasks share."""

import pytest


@pytest.fixture
def save(tmp_path):
    """save(text) -> the path of a file with this text."""

    def save(text):
        (tmp_path / "gold").write_bytes(text.encode())
        return tmp_path / "gold"

    return save
