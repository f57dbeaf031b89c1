"""What is said of kept files of job=probe that are wrong, or cannot stand in one table."""

import json

import probed
import pytest

from tests.report.made_probes import SENSE, probes_content


@pytest.fixture
def read(tmp_path):
    def made(*contents):
        paths = [tmp_path / f"{number}.json" for number, _ in enumerate(contents)]
        for path, one in zip(paths, contents, strict=True):
            path.write_text(json.dumps(one))
        return probed.read(paths)

    return made


def test_what_cannot_stand_in_one_table(read):
    with pytest.raises(ValueError, match=r"1.json: books on ewt is also in \S+0.json"):
        read(probes_content(), probes_content())
    other = probes_content("mini", data={"train": {"sha256": "cd"}})
    with pytest.raises(
        ValueError, match=r"1.json and \S+0.json, of the same corpus ewt, differ in data"
    ):
        read(probes_content(), other)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"seeds": []}, r"seeds is \[\]: List should have at least 1 item"),
        ({"encoder": None}, "encoder is None: Input should be a valid dictionary"),
        (
            {"properties": {"pos": SENSE | {"baseline": {"accuracy": 50}}}},
            "properties.pos.baseline.accuracy is 50: .* less than or equal to 1",
        ),
        ({"properties": {"pos": {"layers": []}}}, "properties.pos.baseline is .*: Field required"),
    ],
)
def test_a_wrong_file(read, wrong, said):
    with pytest.raises(ValueError, match=rf"0.json: not a probe.json of elmo-bench: {said}"):
        read(probes_content() | wrong)
