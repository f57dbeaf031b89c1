"""Coreference from end to end (Lee et al. 2017): any span may be a mention, any mention before it
its antecedent.

Memory grows with the document, never with its square: whatever is wide is made for a block of
sentences, words or pairs at a time. Scores are float32, under autocast too.

Axes: B sentences of the batch, T tokens of a sentence, N words of a document, W widths of a span
(0: one word), which are also the words of a span, S spans, K spans kept, A antecedents (0: none), P
pairs, M gold mentions, X x_k, H features.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmo_bench.nn import Backbone, Scores, Tokens, masked_softmax

from .data import GENRES, Batch, Document, Mention, truncate

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # the least distance of each bin, in kept spans
TOKENS = 16384  # encoded at once, with padding, where nothing is trained
WORDS = 2048  # whose spans are scored at once
BLOCK = 4096  # pairs scored at once, or spans represented


class Ranking(NamedTuple):
    """The spans of a document that were kept, in order; their gold clusters (0: none); a score for
    each antecedent.

    `scores[i, d]` is that of the span d places before span i; that of d=0, the dummy "no
    antecedent", is 0.
    """

    starts: Int[Tensor, " K"]
    ends: Int[Tensor, " K"]
    clusters: Int[Tensor, " K"]
    scores: Float[Tensor, "K A"]


class FeedForward(nn.Module):
    """Two ReLU layers with dropout after each, and one score; apart, so that `first` may be
    computed in parts.
    """

    def __init__(self, input_size: int, *, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.first, second = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        score = Scores(hidden_size, 1)
        for layer in (self.first, second, score):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.rest = nn.Sequential(
            nn.ReLU(), nn.Dropout(dropout), second, nn.ReLU(), nn.Dropout(dropout), score
        )

    def forward(self, x: Float[Tensor, "S H"]) -> Float[Tensor, " S"]:
        return self.rest(self.first(x)).squeeze(-1)


class SpanRanker(nn.Module):
    """Backbone over sentences -> spans -> mention scores -> the best spans -> antecedent scores.

    The paper's BiLSTM has tied gates, learned first states and dropout on its recurrence; ours is
    the standard one. `head_elmo` lets a span's head, a weighted sum over its words, sum ELMo beside
    the words' own vectors. Documents of more than `max_sentences` sentences are cut to so many when
    training.
    """

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        max_width: int,
        spans_per_word: float,
        max_antecedents: int,
        max_sentences: int,
        hidden_size: int,
        feature_dim: int,
        dropout: float,
        lexical_dropout: float,
        head_elmo: bool,
    ) -> None:
        super().__init__()
        self.backbone = backbone()
        self.max_width, self.spans_per_word, self.max_antecedents = (
            max_width,
            spans_per_word,
            max_antecedents,
        )
        self.max_sentences, self.lexical_dropout, self.head_elmo = (
            max_sentences,
            lexical_dropout,
            head_elmo,
        )
        self.dropout = nn.Dropout(dropout)
        head_dim = cast(int, self.backbone.embed.dim) + (
            self.backbone.elmo.dim("input") if head_elmo else 0
        )
        span_dim = 2 * self.backbone.dim + feature_dim + head_dim
        self.head = Scores(
            self.backbone.dim, 1, bias=False
        )  # a bias would add the same to all words
        self.width = _table(max_width, feature_dim)
        self.mention = FeedForward(span_dim, hidden_size=hidden_size, dropout=dropout)
        self.speaker = _table(2, feature_dim)
        self.genre = _table(len(GENRES) + 1, feature_dim)
        self.distance = _table(len(DISTANCES) + 1, feature_dim)
        self.pair = FeedForward(
            3 * span_dim + 3 * feature_dim, hidden_size=hidden_size, dropout=dropout
        )

    def forward(self, batch: Batch) -> list[Ranking]:
        if self.training:
            batch = truncate(batch, self.max_sentences)
        x, h = self.encode(batch.tokens)
        sentences, lengths = (
            batch.tokens.mask.nonzero()[:, 0],
            [len(document.speakers) for document in batch.documents],
        )
        parts = zip(
            x.split(lengths),
            h.split(lengths),
            sentences.split(lengths),
            batch.documents,
            strict=True,
        )
        return [self._rank(*part) for part in parts]

    def encode(self, tokens: Tokens) -> tuple[Float[Tensor, "N X"], Float[Tensor, "N H"]]:
        """The vectors that heads sum, and the encoded words, of all sentences, one after the
        other.
        """
        size = len(tokens.mask) if self.training else max(1, TOKENS // tokens.mask.shape[1])
        parts = [
            self._encode(rows(tokens, first, size)) for first in range(0, len(tokens.mask), size)
        ]
        x, h = (torch.cat(part) for part in zip(*parts, strict=True))
        return x, h

    def _encode(self, tokens: Tokens) -> tuple[Float[Tensor, "N X"], Float[Tensor, "N H"]]:
        """The backbone's own steps: as in the paper one dropout serves the RNN's input and the
        heads.
        """
        backbone = self.backbone
        elmo = backbone.read_elmo(tokens)
        x = F.dropout(backbone.embed(tokens), self.lexical_dropout, self.training)
        read = torch.cat([x, elmo.input], -1)
        h = torch.cat([backbone.rnn(read, tokens.mask), elmo.output], -1)
        return (read if self.head_elmo else x)[tokens.mask], self.dropout(h)[tokens.mask]

    def _rank(
        self,
        x: Float[Tensor, "N X"],
        h: Float[Tensor, "N H"],
        sentence: Int[Tensor, " N"],
        document: Document,
    ) -> Ranking:
        real = candidates(sentence, self.max_width)
        shares = self._shares(h, real)
        mention, features = self._mentions(x, h, real, shares)
        starts, widths = real.nonzero(as_tuple=True)
        kept = prune(
            starts.tolist(), (starts + widths).tolist(), mention, int(self.spans_per_word * len(x))
        )
        starts, widths = starts[kept], widths[kept]
        vectors = self._represent(x, h, starts, widths, shares, features[kept])
        scores = self._antecedents(
            vectors, mention[kept], document.speakers[starts], document.genre
        )
        return Ranking(
            starts, starts + widths, _gold(document.mentions, real)[starts, widths], scores
        )

    def _shares(self, h: Float[Tensor, "N H"], real: Bool[Tensor, "N W"]) -> Float[Tensor, "N W W"]:
        """For each first word and width, how much of the span's head each of its words is (section
        4.1).
        """
        inside = torch.ones_like(real[0]).expand(real.shape[1], -1).tril().expand(len(h), -1, -1)
        return masked_softmax(
            self.head(h).squeeze(-1)[_window(real)][:, None].expand_as(inside), inside
        )

    def _mentions(
        self,
        x: Float[Tensor, "N X"],
        h: Float[Tensor, "N H"],
        real: Bool[Tensor, "N W"],
        shares: Float[Tensor, "N W W"],
    ) -> tuple[Float[Tensor, " S"], Float[Tensor, "S F"]]:
        """Every span's mention score, and the features of its width.

        The first layer over [h at the start; h at the end; width; head] is taken apart: what
        depends on one word alone is computed once a word, so that no span's vector is ever made.
        """
        first = self.mention.first
        parts = first.weight.split(
            [h.shape[1], h.shape[1], self.width.embedding_dim, x.shape[1]], 1
        )
        of_start, of_end, of_head = (
            F.linear(h, parts[0], first.bias),
            F.linear(h, parts[1]),
            F.linear(x, parts[3]),
        )
        scores, features = [], []
        for words, spans, share, window in zip(
            *(part.split(WORDS) for part in (of_start, real, shares, _window(real))), strict=True
        ):
            starts, widths = spans.nonzero(as_tuple=True)
            feature = self.dropout(self.width(widths))
            heads = (share @ of_head[window])[spans]
            hidden = (
                words[starts] + of_end[window[starts, widths]] + F.linear(feature, parts[2]) + heads
            )
            scores.append(self.mention.rest(hidden).squeeze(-1))
            features.append(feature)
        return torch.cat(scores), torch.cat(features)

    def _represent(
        self,
        x: Float[Tensor, "N X"],
        h: Float[Tensor, "N H"],
        starts: Int[Tensor, " K"],
        widths: Int[Tensor, " K"],
        shares: Float[Tensor, "N W W"],
        features: Float[Tensor, "K F"],
    ) -> Float[Tensor, "K H2"]:
        """[h at the start; h at the end; width; head] of some spans (section 4.1)."""
        window = starts[:, None] + torch.arange(shares.shape[1], device=starts.device)
        blocks = zip(
            shares[starts, widths].split(BLOCK),
            window.clamp(max=len(x) - 1).split(BLOCK),
            strict=True,
        )
        heads = torch.cat([(share[:, None] @ x[words])[:, 0] for share, words in blocks])
        return torch.cat([h[starts], h[starts + widths], features, heads], -1)

    def _antecedents(
        self,
        vectors: Float[Tensor, "K H"],
        mention: Float[Tensor, " K"],
        speakers: Int[Tensor, " K"],
        genre: Int[Tensor, ""],
    ) -> Float[Tensor, "K A"]:
        """Score of each span with each span before it: both mention scores and that of the pair
        (equation 4).

        The first layer over [span; antecedent; product; features] is taken apart: what depends on
        one span alone is computed once a span. Pairs are scored in blocks, and again for their
        gradients: of each only its score is kept.
        """
        later, earlier = pairs(len(vectors), self.max_antecedents, vectors.device)
        first, size = self.pair.first, vectors.shape[1]
        weights = first.weight.split([size, size, size, first.in_features - 3 * size], 1)
        of_later, of_earlier = (
            F.linear(vectors, weights[0], first.bias),
            F.linear(vectors, weights[1]),
        )
        bins = torch.tensor(DISTANCES, device=vectors.device)

        def score(i: Tensor, j: Tensor) -> Tensor:
            features = [
                self.speaker((speakers[i] == speakers[j]).long()),
                self.genre(genre).expand(len(i), -1),
                self.distance(torch.bucketize(i - j, bins, right=True)),
            ]
            product = F.linear(vectors[i] * vectors[j], weights[2])
            seen = F.linear(self.dropout(torch.cat(features, -1)), weights[3])
            return self.pair.rest(of_later[i] + of_earlier[j] + product + seen).squeeze(-1)

        scores = mention.new_full(
            (len(vectors), 1 + min(self.max_antecedents, max(len(vectors) - 1, 0))), -torch.inf
        )
        scores[:, 0] = 0
        # Each block goes straight into the table: small results, kept between large ones that are
        # freed, leave holes.
        for i, j in zip(later.split(BLOCK), earlier.split(BLOCK), strict=True):
            scores[i, i - j] = (
                checkpoint(score, i, j, use_reentrant=False) + mention[i] + mention[j]
            )
        return scores

    def loss(self, rankings: list[Ranking], batch: Batch) -> Float[Tensor, ""]:
        """Minus the log likelihood of each span's correct antecedents, or of the dummy if there are
        none; summed.
        """
        return torch.stack([_loss(ranking) for ranking in rankings]).sum()

    def decode(self, rankings: list[Ranking], batch: Batch) -> list[list[list[Mention]]]:
        """The clusters that the best antecedents make."""
        return [_clusters(ranking) for ranking in rankings]


def _table(size: int, dim: int) -> nn.Embedding:
    table = nn.Embedding(size, dim)
    nn.init.xavier_uniform_(table.weight)
    return table


def rows(tokens: Tokens, first: int, count: int) -> Tokens:
    """Some sentences of a batch, without the padding that only the others need."""
    part = slice(first, first + count)
    return tokens.cut(part, int(tokens.mask[part].sum(1).amax()))


def pairs(
    count: int, most: int, device: torch.device
) -> tuple[Int[Tensor, " P"], Int[Tensor, " P"]]:
    """All pairs of a span and one of the `most` before it, span after span.

    >>> [part.tolist() for part in pairs(4, 2, torch.device("cpu"))]
    [[1, 2, 2, 3, 3], [0, 0, 1, 1, 2]]
    """
    back = torch.arange(min(most, max(count - 1, 0)), 0, -1, device=device)
    later, column = (torch.arange(count, device=device)[:, None] >= back).nonzero(as_tuple=True)
    return later, later - back[column]


def _window(grid: Bool[Tensor, "N W"]) -> Int[Tensor, "N W"]:
    """The word that is w places after word n, or the last."""
    return _places(grid).clamp(max=len(grid) - 1)


def _places(grid: Bool[Tensor, "N W"]) -> Int[Tensor, "N W"]:
    """The word that is w places after word n."""
    first, after = (torch.arange(size, device=grid.device) for size in grid.shape)
    return first[:, None] + after


def candidates(sentence: Int[Tensor, " N"], max_width: int) -> Bool[Tensor, "N W"]:
    """Which spans of words n to n + w there are: those that end within their sentence."""
    count = len(sentence)
    ends = _places(sentence.new_ones(count, min(max_width, count), dtype=torch.bool))
    return (ends < count) & (sentence[ends.clamp(max=count - 1)] == sentence[:, None])


def prune(
    starts: Sequence[int], ends: Sequence[int], scores: Float[Tensor, " S"], most: int
) -> Int[Tensor, " K"]:
    """The places of the best spans, in order: accepted one by one by score, but none that crosses
    an accepted one.

    Spans cross if each holds a part of the other. Of the accepted spans it is enough to know how
    far those that begin at a word reach, and from where those that end at a word come: each span
    looks at its own words only.
    """
    reach, origin = [-1] * (max(ends) + 1), [len(ends)] * (max(ends) + 1)
    accepted: list[int] = []
    for place in scores.argsort(descending=True, stable=True).tolist():
        if len(accepted) == most:
            break
        start, end = starts[place], ends[place]
        if (
            max(reach[start + 1 : end + 1], default=-1) > end
            or min(origin[start:end], default=start) < start
        ):
            continue
        reach[start], origin[end] = max(reach[start], end), min(origin[end], start)
        accepted.append(place)
    return torch.tensor(sorted(accepted), dtype=torch.long, device=scores.device)


def _gold(mentions: Int[Tensor, "M 3"], real: Bool[Tensor, "N W"]) -> Int[Tensor, "N W"]:
    """The gold cluster of each span, 0 for none; mentions that are too wide to be a span are
    lost.
    """
    starts, ends, clusters = mentions[mentions[:, 1] - mentions[:, 0] < real.shape[1]].unbind(1)
    grid = torch.zeros_like(real, dtype=torch.long)
    grid[starts, ends - starts] = clusters
    return grid


def _loss(ranking: Ranking) -> Float[Tensor, ""]:
    scores, clusters = ranking.scores, ranking.clusters
    count, width = scores.shape
    back = torch.arange(count, device=scores.device)[:, None] - torch.arange(
        width, device=scores.device
    )
    same = (
        (clusters[back.clamp(min=0)] == clusters[:, None]) & (clusters[:, None] > 0) & (back >= 0)
    )
    correct = torch.cat([~same[:, 1:].any(1, keepdim=True), same[:, 1:]], 1)
    return (scores.logsumexp(1) - scores.masked_fill(~correct, -torch.inf).logsumexp(1)).sum()


def _clusters(ranking: Ranking) -> list[list[Mention]]:
    mentions = list(zip(ranking.starts.tolist(), ranking.ends.tolist(), strict=True))
    clusters: list[list[Mention]] = []
    homes: dict[int, list[Mention]] = {}
    for place, back in enumerate(ranking.scores.argmax(1).tolist()):
        if back == 0:
            continue
        if place - back not in homes:
            homes[place - back] = [mentions[place - back]]
            clusters.append(homes[place - back])
        homes[place] = homes[place - back]
        homes[place].append(mentions[place])
    return clusters
