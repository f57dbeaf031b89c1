"""The language model on top of a biLM (section 3.1 of the paper): two softmaxes over words with
shared weights, or one for a biLM with one direction.

The forward direction reads <S> w_1 ... w_n and predicts w_1 ... w_n </S>; the backward one reads
</S> w_n ... w_1 and predicts w_n ... w_1 <S>. Words are read as characters, so any word can be
read; only predictions need a vocabulary.

Axes: B batch or streams, T tokens, C characters, P one direction, V vocabulary, U different words,
N predictions.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.encoders import batches
from elmo_bench.encoders.bilm import BiLm, State

from .corpus import BEGIN, END, UNKNOWN, Corpus, Sentences

SCORES = 1 << 24  # scores (tokens x vocabulary) in memory at once, for perplexity


class LanguageModel(nn.Module):
    """A biLM and the softmax with which its directions predict words."""

    def __init__(self, bilm: BiLm, vocabulary: Sequence[str]) -> None:
        super().__init__()
        self.bilm, self.vocabulary = bilm, list(vocabulary)
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

    @torch.no_grad()
    def start_from(self, corpus: Corpus) -> None:
        """Initialise the softmax with word frequencies.

        A sampled softmax needs this: it sees rare words too seldom to correct random rows, and for
        a long time they would dominate the sum over a large vocabulary.
        """
        counts = np.bincount([*map(self.number, corpus.words)], corpus.counts, len(self.vocabulary))
        counts[[self.number(BEGIN), self.number(END)]] = corpus.num_sentences
        self.softmax.bias.copy_(torch.from_numpy(np.log((counts + 1) / (counts + 1).sum())))
        self.softmax.weight.mul_(0.01)

    def tops(
        self,
        frames: Int[np.ndarray, "U C"],
        windows: Sequence[Int[np.ndarray, "B T"]],
        state: State,
    ) -> tuple[list[Float[Tensor, "B T P"]], State]:
        """Return each direction's top layer, after dropout, from which words are predicted, and the
        next state.

        A direction has its own window, of word types whose characters are in `frames`. A word is
        encoded once, however often it occurs in the windows.
        """
        device = self.softmax.weight.device
        types, places = np.unique(np.stack(windows), return_inverse=True)
        chars = torch.from_numpy(frames[types].astype(np.int64)).to(device)
        rows = torch.from_numpy(places.reshape(len(windows), *windows[0].shape)).to(device)
        return self.bilm.run(self.bilm.token_encoder(chars)[rows], state)

    @torch.no_grad()
    def likelihoods(self, sentences: Sentences) -> dict[str, list[Float[np.ndarray, " _"]]]:
        """Return the log probability (nats) of every prediction, by direction and sentence, each
        sentence from a zero state.

        There is one value per word, in the order of the text; forward has the value of </S> after
        them, backward that of <S> before them.
        """
        device = self.softmax.weight.device
        layers, _ = self.bilm.read(self.bilm.prepare(sentences).chars.to(device), boundaries=True)
        framed = ([BEGIN, *sentence, END] for sentence in sentences)
        words = pad_sequence([torch.tensor([*map(self.number, words)]) for words in framed], True)
        sizes = [len(sentence) + 1 for sentence in sentences]
        here = torch.arange(words.shape[1] - 1) < torch.tensor(sizes)[:, None]
        scores, sides = {}, layers[-1].chunk(len(self.directions), -1)
        for name, top in zip(self.directions, sides, strict=True):
            read, predicted = slice(0, -1), slice(1, None)
            if name == "backward":
                read, predicted = predicted, read
            targets = words[:, predicted][here].to(device)
            values = self.log_probabilities(top[:, read][here.to(device)], targets).cpu().numpy()
            scores[name] = np.split(values, np.cumsum(sizes[:-1]))
        return scores

    def log_probabilities(
        self, top: Float[Tensor, "N P"], targets: Int[Tensor, " N"]
    ) -> Float[Tensor, " N"]:
        """Return the log probability of each target under the full softmax, as many positions at a
        time as `SCORES` allows.
        """
        size = max(1, SCORES // len(self.vocabulary))
        pairs = zip(top.split(size), targets.split(size), strict=True)
        parts = [-F.cross_entropy(self.softmax(x), target, reduction="none") for x, target in pairs]
        return torch.cat(parts)

    def perplexity(
        self,
        sentences: Sentences,
        watch: Callable[[Sequence[list[int]]], Iterable[list[int]]] = iter,
    ) -> dict[str, float]:
        """Return the exponential of the mean negative log likelihood of each direction, with the
        full softmax and zero states.

        `watch` receives the batches and yields them unchanged, so that it can show progress. Raises
        FloatingPointError, with the model's files, for a perplexity beyond all floats.
        """
        training = self.training
        self.eval()
        losses = dict.fromkeys(self.directions, 0.0)
        for places in watch([*batches([len(sentence) for sentence in sentences])]):
            for name, scores in self.likelihoods([sentences[place] for place in places]).items():
                for values in scores:
                    losses[name] -= float(values.sum(dtype=np.float64))
        self.train(training)
        count = sum(len(sentence) + 1 for sentence in sentences)
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
