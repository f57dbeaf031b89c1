"""The language model on top of a biLM (section 3.1 of the paper): two softmaxes over words with
shared weights, or one for a biLM with one direction.

The forward direction reads <S> w_1 ... w_n and predicts w_1 ... w_n </S>; the backward one reads
</S> w_n ... w_1 and predicts w_n ... w_1 <S>. Words are read as characters, so any word can be
read; only predictions need a vocabulary.

Axes: P one direction, V vocabulary.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.encoders import batches, read_tensors
from elmo_bench.encoders.bilm import BiLm, Direction, load
from elmo_bench.files import atomic
from elmo_bench.terminal import counted
from elmo_bench.text import Sentences, decode, read_bytes

from .corpus import BEGIN, END, SPECIAL, UNKNOWN, Corpus

SOFTMAX = "softmax.safetensors"
VOCABULARY = "vocabulary.txt"
SCORES = 1 << 24  # scores (tokens x vocabulary) in memory at once, for perplexity


class LanguageModel(nn.Module):
    """A biLM and the softmax with which its directions predict words."""

    def __init__(self, bilm: BiLm, vocabulary: Sequence[str]) -> None:
        super().__init__()
        self.bilm = bilm
        self.vocabulary = list(vocabulary)
        self.source = ""  # the files that it comes from, for errors
        self.directions: Sequence[str] = bilm.options.directions
        self.numbers = {word: number for number, word in enumerate(self.vocabulary)}
        size = bilm.options.projection_size
        self.softmax = nn.Linear(size, len(self.vocabulary))
        nn.init.normal_(self.softmax.weight, std=1 / math.sqrt(size))
        nn.init.zeros_(self.softmax.bias)

    def number(self, word: str) -> int:
        """Return a word's index in the vocabulary, or that of <UNK>."""
        return self.numbers.get(word, self.numbers[UNKNOWN])

    def numbers_of(self, words: Iterable[str]) -> list[int]:
        """Return the indices of words."""
        return [self.number(word) for word in words]

    @torch.no_grad()
    def start_from(self, corpus: Corpus) -> None:
        """Initialise the softmax with word frequencies: a sampled one sees rare words too seldom to
        correct random rows, which would dominate the sum over a large vocabulary for a long time.
        """
        numbers = self.numbers_of(corpus.words)
        counts = np.bincount(numbers, corpus.counts, len(self.vocabulary))
        counts[[self.number(BEGIN), self.number(END)]] = corpus.num_sentences
        self.softmax.bias.copy_(torch.from_numpy(np.log((counts + 1) / (counts + 1).sum())))
        self.softmax.weight.mul_(0.01)

    @torch.no_grad()
    def likelihoods(self, sentences: Sentences) -> dict[str, list[Float[np.ndarray, " _"]]]:
        """Return the log probability (nats) of every prediction, by direction and sentence, each
        sentence from a zero state.

        There is one value per word, in the order of the text; forward has the value of </S> after
        them, backward that of <S> before them.
        """
        device = self.softmax.weight.device
        layers, _ = self.bilm.read(self.bilm.prepare(sentences).chars.to(device), boundaries=True)
        framed = [self._framed(sentence) for sentence in sentences]
        numbers = pad_sequence(framed, batch_first=True)
        sizes = [len(sentence) + 1 for sentence in sentences]
        is_prediction = torch.arange(numbers.shape[1] - 1) < torch.tensor(sizes)[:, None]
        at_once = max(1, SCORES // len(self.vocabulary))
        tops_of_directions = layers[-1].chunk(len(self.directions), -1)
        scores = {}
        for name, top in zip(self.directions, tops_of_directions, strict=True):
            if name == "forward":
                read = top[:, :-1]
                predicted = numbers[:, 1:]
            else:
                read = top[:, 1:]
                predicted = numbers[:, :-1]
            vectors = read[is_prediction.to(device)].split(at_once)
            targets = predicted[is_prediction].to(device).split(at_once)
            losses = []
            for some_vectors, some_targets in zip(vectors, targets, strict=True):
                predictions = self.softmax(some_vectors)
                losses.append(F.cross_entropy(predictions, some_targets, reduction="none"))
            log_probabilities = -torch.cat(losses).cpu().numpy()
            scores[name] = np.split(log_probabilities, np.cumsum(sizes[:-1]))
        return scores

    def _framed(self, sentence: Sequence[str]) -> Int[Tensor, " _"]:
        """Return the indices of <S>, the words and </S>."""
        return torch.tensor(self.numbers_of([BEGIN, *sentence, END]))

    def perplexity(self, sentences: Sentences) -> dict[str, float]:
        """Return the exponential of the mean negative log likelihood of each direction, with the
        full softmax and zero states; the log shows progress. Raises FloatingPointError, with the
        model's files, for a perplexity beyond all floats.
        """
        training = self.training
        self.eval()
        losses = dict.fromkeys(self.directions, 0.0)
        lengths = [len(sentence) for sentence in sentences]
        batches_of_numbers = list(batches(lengths))
        for numbers in counted(batches_of_numbers, "perplexity, batches"):
            batch = [sentences[number] for number in numbers]
            for name, scores in self.likelihoods(batch).items():
                for values in scores:
                    losses[name] -= float(values.sum(dtype=np.float64))
        self.train(training)
        count = sum(lengths) + len(lengths)  # a sentence has one prediction more than words
        try:
            return {name: math.exp(loss / count) for name, loss in losses.items()}
        except OverflowError as error:
            raise FloatingPointError(
                f"a mean loss of {max(losses.values()) / count:.3g} nats per prediction has no "
                "finite perplexity: the training of this language model has diverged; choose a "
                f"lower learning rate (pretrain.lr or adapt.lr){or_damaged(self.source)}"
            ) from error


def or_damaged(source: str) -> str:
    """Return the other cause of a loss that is not finite, where a model was read from files."""
    return f". Or {source} is damaged: get or make it again" if source else ""


def save_softmax(model: LanguageModel, folder: Path, *, dtype: torch.dtype = torch.float16) -> None:
    """Write `softmax.safetensors` ("weight" V P, "bias" V) and `vocabulary.txt` to the biLM's
    folder, each completely or not at all. Row n of the softmax belongs to the word in line n.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with atomic(folder / VOCABULARY) as part:
        lines = "".join(f"{word}\n" for word in model.vocabulary)
        part.write_text(lines, encoding="utf-8", newline="\n")
    tensors = {name: x.detach().cpu().to(dtype) for name, x in model.softmax.named_parameters()}
    with atomic(folder / SOFTMAX) as part:
        part.write_bytes(to_bytes(tensors))


def load_language_model(
    options: str | Path, weights: str | Path, *, directions: Sequence[Direction] | None = None
) -> LanguageModel:
    """Load a biLM, or some `directions` of it, with the softmax and vocabulary in its folder, in
    float32 and without dropout. Raises the errors of `load`, FileNotFoundError if there is no
    softmax, and ValueError if softmax, vocabulary and biLM do not fit.
    """
    bilm = load(options, weights, directions=directions)
    folder = Path(weights).parent
    for path in (folder / SOFTMAX, folder / VOCABULARY):
        if not path.is_file():
            raise FileNotFoundError(
                f"{path}: no such file. Predicting words needs the biLM's softmax, which "
                "the published biLMs and the shipped mini do not include; job=pretrain "
                "out=FOLDER writes one with the biLM"
            )
    words = _read_vocabulary(folder / VOCABULARY)
    shapes = {"weight": (len(words), bilm.options.projection_size), "bias": (len(words),)}
    tensors = read_tensors(folder / SOFTMAX, shapes, f"{VOCABULARY} and the biLM's options")
    model = LanguageModel(bilm, words).eval()
    model.softmax.load_state_dict(tensors)
    model.source = f"{folder / SOFTMAX} or {Path(weights).name}"
    return model


def _read_vocabulary(path: Path) -> list[str]:
    # Read as bytes, since a word may begin with a byte order mark.
    words = [decode(line, f"{path}:{number}") for number, line in read_bytes(path)]
    special = list(SPECIAL)
    if words[:3] != special:
        raise ValueError(f"{path}: the first lines must be {special}, but they are {words[:3]}")
    word, count = Counter(words).most_common(1)[0]
    if count > 1:
        raise ValueError(f"{path}: {word!r} occurs {count} times, but each word must occur once")
    return words
