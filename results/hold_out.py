"""Make the two files of SQuAD that `experiment=squad` trains on: `python results/hold_out.py DIR`.

Below DIR, the data_dir of the runs, squad/train-v1.1.json must exist, or a file of its first 44
articles named train-v1.1.subset.json, plain or gzipped. Of the first 44 articles, 38 become
squad/results.train.json, for training, and the other six squad/results.dev.json. So the official
dev set, which is the test set here, chooses neither an epoch nor a setting.
"""

import json
import sys
from pathlib import Path
from typing import Any

from elmo_bench.files import read_json

PARTS = {"train": slice(0, 38), "dev": slice(38, 44)}  # articles
NAMES = [f"train-v1.1{part}.json{packed}" for part in (".subset", "") for packed in ("", ".gz")]
URL = "https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v1.1.json"


def main(data_dir: str) -> None:
    folder = Path(data_dir, "squad")
    found = [folder / name for name in NAMES if (folder / name).is_file()]
    if not found:
        sys.exit(f"{folder}: none of {', '.join(NAMES)} is there; put {URL} there")
    content = read_json(found[0], max_bytes=1 << 30)
    if len(content.get("data", [])) < PARTS["dev"].stop:
        sys.exit(f"{found[0]} must be SQuAD's training file, or its first 44 articles")
    for name, part in PARTS.items():
        articles = content["data"][part]
        path = folder / f"results.{name}.json"
        path.write_text(json.dumps(content | {"data": articles}), encoding="utf-8")
        print(f"{path}: {len(articles)} articles, {sum(map(questions, articles)):,} questions")


def questions(article: dict[str, Any]) -> int:
    return sum(len(paragraph["qas"]) for paragraph in article["paragraphs"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
