"""Golden vectors: what AllenNLP's own modules make of small random weights and of our sentences.

    python -m benchmarks.golden --peers FOLDER tests/golden

writes the files that the tests compare this package with. FOLDER has AllenNLP 2.10.1, unpacked (see
`benchmarks/allennlp.py`). It computes in float64 and writes float32, so that the files are the
same to the last digit or so wherever they are made.

Axes: B batch, T tokens, S tokens and the two boundaries, C characters, L layers, R directions, D
biLM, P one direction, Z cell.
"""

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.encoders.bilm import BiLm, Options, save

from . import allennlp, golden_modules

# Three batches, to be read one after the other: sentences of different lengths, the longest never
# at the same row, in several scripts; one of one word, one of none, words that are cut off (one of
# them within a character), an empty word, and words that mean the boundaries.
BATCHES = (
    (
        ("The", "old", "brewery", "opened", "in", "May", "."),
        ("Nobody",),
        ("Żaneta", "naïvely", "said", "“", "北京", "”", "🙂"),
    ),
    (
        ("A", "w" + "o" * 58 + "rd", "is", "cut"),
        ("a" + "é" * 40, "too", ",", "within", "a", "letter"),
        ("<S>", "", "</S>"),
    ),
    (
        (),
        ("It", "opened", "again", "."),
        ("And", "THE", "OLD", "Brewery", "?", "Closed", "!", "(", "2019", ")"),
    ),
)
SIZES: dict[str, Any] = {
    "cell_size": 10,
    "projection_size": 6,
    "filters": ((1, 4), (2, 4), (3, 6), (5, 4)),
    "char_dim": 4,
}
BILMS = {
    "original": Options(**SIZES, num_highway=2),  # relu, two layers, clips of 3
    "clipped": Options(**SIZES, cell_clip=0.5, projection_clip=0.3),
    "deep": Options(
        **SIZES, num_layers=3, activation="tanh", cell_clip=1.2, projection_clip=0.8, num_highway=2
    ),
    "no_skip": Options(
        **SIZES, num_layers=3, skip_connections=False, cell_clip=0.6, projection_clip=0.4
    ),
}


def random_bilm(options: Options, seed: int) -> BiLm:
    """A biLM whose weights are large enough for small clips to bind."""
    model, random = BiLm(options).requires_grad_(False), torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.copy_(0.5 * torch.randn(parameter.shape, generator=random))
    return model


class Unskipped(nn.Module):
    """A layer of AllenNLP's without what AllenNLP will add to its output, its input."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, inputs: Tensor, *arguments: Any) -> tuple[Tensor, Any]:
        outputs, state = self.layer(inputs, *arguments)
        return outputs - inputs, state


def peer(wheel: Path, model: BiLm) -> Any:
    """AllenNLP's module with the weights of ours, in double precision."""
    options = model.options
    skipping = BiLm(dataclasses.replace(options, skip_connections=True))  # it reads no others
    skipping.load_state_dict(model.state_dict())
    with tempfile.TemporaryDirectory() as scratch:
        module = allennlp.load(wheel, skipping, Path(scratch)).double()
    if not options.skip_connections:
        lstm = module._elmo_lstm
        for layer in range(1, options.num_layers):
            for name in (f"forward_layer_{layer}", f"backward_layer_{layer}"):
                setattr(lstm, name, Unskipped(getattr(lstm, name)))
    return module


def characters(batch: Sequence[Sequence[str]]) -> Tensor:
    """The ids that AllenNLP gives a batch, "B T C"."""
    from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper

    ids = ELMoCharacterMapper().convert_word_to_char_ids
    rows = [torch.tensor([ids(word) for word in sentence]).view(-1, 50) for sentence in batch]
    return pad_sequence([row.long() for row in rows], batch_first=True)


@torch.no_grad()
def vectors(module: Any) -> Iterator[tuple[str, Tensor]]:
    """For each batch k: `zero.k`, "L B S D", from a zero state; `carried.k`, "L B T D", and
    `h.k` and `c.k`, "L B 2P" and "L B 2Z", the state after it, where the state is carried on.
    """
    from allennlp.nn.util import remove_sentence_boundaries

    for k, batch in enumerate(BATCHES):
        module._elmo_lstm.reset_states()
        yield f"zero.{k}", torch.stack(module(characters(batch))["activations"])
    module._elmo_lstm.reset_states()
    for k, batch in enumerate(BATCHES):
        found = module(characters(batch))
        layers = [remove_sentence_boundaries(x, found["mask"])[0] for x in found["activations"]]
        yield f"carried.{k}", torch.stack(layers)
        for name, state in zip("hc", module._elmo_lstm._states, strict=True):
            yield f"{name}.{k}", state


def write_bilms(wheel: Path, folder: Path) -> None:
    """A folder each: `options.json`, `weights.hdf5`, `vectors.safetensors`; and the sentences."""
    write(folder / "sentences.json", BATCHES)
    for seed, (name, options) in enumerate(BILMS.items(), 1):
        model = random_bilm(options, seed)
        save(model, folder / name / "weights.hdf5")
        found = {key: x.float().contiguous() for key, x in vectors(peer(wheel, model))}
        (folder / name / "vectors.safetensors").write_bytes(to_bytes(found))


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, ensure_ascii=False) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.golden", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--peers", required=True, type=Path, help="the folder in which AllenNLP's wheel is unpacked"
    )
    parser.add_argument("folder", type=Path, help="where the files are written")
    chosen = parser.parse_args(arguments)
    if not (chosen.peers / "allennlp/modules/elmo.py").is_file():
        parser.error(
            f"--peers {chosen.peers}: it has no allennlp/modules/elmo.py; unpack AllenNLP's wheel "
            "there (pip download --no-deps allennlp==2.10.1)"
        )
    write_bilms(chosen.peers, chosen.folder / "bilm")
    for name, figures in golden_modules.figures():
        write(chosen.folder / "modules" / name, figures)


if __name__ == "__main__":
    main()
