"""Coreference from end to end (Lee et al. 2017): all spans, their scores, their antecedents.

Memory grows with the document, never with its square: whatever is wide is made for a block of
sentences, words or pairs at a time. Scores are float32, under autocast too.

Axes: B sentences of the batch, T tokens of a sentence, N words of a document, W widths of a span
(0: one word), which are also the words of a span, S spans, K spans kept, A antecedents (0: none), P
pairs, M gold mentions, X x_k, H features.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmo_bench.checks import Count, Dropout, Positive, Size
from elmo_bench.nn import Backbone, Scores, Tokens, masked_softmax, to_device

from .data import GENRES, Batch, Document, Mention, truncate

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # the least distance of each bin, in kept spans
TOKENS = 16384  # encoded at once, with padding, where nothing is trained
WORDS = 2048  # whose spans are scored at once
BLOCK = 4096  # pairs scored at once, or spans represented


class Ranking(NamedTuple):
    """A document's kept spans, in order; their gold clusters (0: none); scores of antecedents.

    `scores[i, d]` is that of the span d places before span i; that of d=0, the dummy "no
    antecedent", is 0.
    """

    starts: Int[Tensor, " K"]
    ends: Int[Tensor, " K"]
    clusters: Int[Tensor, " K"]
    scores: Float[Tensor, "K A"]


class FeedForward(nn.Module):
    """Two ReLU layers, each with dropout, and one score; `first` may be computed in parts."""

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

    sums_losses = True  # of a batch's documents
    bins: Tensor

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        max_width: Count,
        spans_per_word: Positive,
        max_antecedents: Count,
        max_sentences: Count,
        hidden_size: Size,
        feature_dim: Size,
        dropout: Dropout,
        lexical_dropout: Dropout,
        head_elmo: bool,
    ) -> None:
        super().__init__()
        self.backbone = backbone()
        self.max_width = max_width
        self.max_antecedents = max_antecedents
        self.max_sentences = max_sentences
        self.spans_per_word = spans_per_word
        self.lexical_dropout = lexical_dropout
        self.head_elmo = head_elmo
        self.dropout = nn.Dropout(dropout)
        elmo_dim = self.backbone.elmo.dim("input") if head_elmo else 0
        head_dim = cast(int, self.backbone.embed.dim) + elmo_dim
        span_dim = 2 * self.backbone.dim + feature_dim + head_dim
        # No bias: it would add the same to all words.
        self.head = Scores(self.backbone.dim, 1, bias=False)
        self.width = _table(max_width, feature_dim)
        self.mention = FeedForward(span_dim, hidden_size=hidden_size, dropout=dropout)
        self.speaker = _table(2, feature_dim)
        self.genre = _table(len(GENRES) + 1, feature_dim)
        self.distance = _table(len(DISTANCES) + 1, feature_dim)
        self.register_buffer("bins", torch.tensor(DISTANCES), persistent=False)
        self.pair = FeedForward(
            3 * span_dim + 3 * feature_dim, hidden_size=hidden_size, dropout=dropout
        )

    def forward(self, batch: Batch) -> list[Ranking]:
        if self.training:
            batch = truncate(batch, self.max_sentences)
        x, h = self.word_vectors(batch.tokens)
        counts = torch.tensor(batch.tokens.lengths)
        sentences = torch.arange(len(counts)).repeat_interleave(counts)
        lengths = [len(document.speakers) for document in batch.documents]
        split = (part.split(lengths) for part in (x, h, sentences))
        return [self._rank(*parts) for parts in zip(*split, batch.documents, strict=True)]

    def word_vectors(self, tokens: Tokens) -> tuple[Float[Tensor, "N X"], Float[Tensor, "N H"]]:
        """The vectors that heads sum, and the rnn's, of all sentences, one after the other."""
        size = len(tokens.mask) if self.training else max(1, TOKENS // tokens.mask.shape[1])
        parts = [
            self._word_vectors(rows(tokens, first, size))
            for first in range(0, len(tokens.mask), size)
        ]
        x, h = (torch.cat(part) for part in zip(*parts, strict=True))
        return x, h

    def _word_vectors(self, tokens: Tokens) -> tuple[Float[Tensor, "N X"], Float[Tensor, "N H"]]:
        """The backbone's own steps; as in the paper, one dropout serves the rnn and the heads."""
        backbone = self.backbone
        elmo = backbone.read_elmo(tokens)
        x = F.dropout(backbone.embed(tokens), self.lexical_dropout, self.training)
        read = torch.cat([x, elmo.input], -1)
        h = torch.cat([backbone.run(read, tokens), elmo.output], -1)
        of_heads, h = read if self.head_elmo else x, self.dropout(h)
        lengths, length = torch.tensor(tokens.lengths), tokens.mask.shape[1]
        words = to_device((torch.arange(length) < lengths[:, None]).flatten().nonzero()[:, 0], h)
        return of_heads.flatten(0, 1)[words], h.flatten(0, 1)[words]

    def _rank(
        self,
        x: Float[Tensor, "N X"],
        h: Float[Tensor, "N H"],
        sentence: Int[Tensor, " N"],
        document: Document,
    ) -> Ranking:
        """`sentence` is on the host, as is all that follows from it and from the choice of spans,
        for which the host waits.
        """
        real = candidates(sentence, self.max_width)
        shares = self._shares(h, real)
        mention, features = self._mentions(x, h, real, shares)
        starts, widths = real.nonzero(as_tuple=True)
        most = int(self.spans_per_word * len(x))
        kept = prune(starts.tolist(), (starts + widths).tolist(), mention, most)
        starts, widths = starts[kept], widths[kept]
        clusters = _gold(document.mentions, real)[starts, widths]
        kept, starts, widths, clusters = to_device(torch.stack([kept, starts, widths, clusters]), x)
        vectors = self._represent(x, h, starts, widths, shares, features[kept])
        speakers = document.speakers[starts]
        scores = self._antecedents(vectors, mention[kept], speakers, document.genre)
        return Ranking(starts, starts + widths, clusters, scores)

    def _shares(self, h: Float[Tensor, "N H"], real: Bool[Tensor, "N W"]) -> Float[Tensor, "N W W"]:
        """For each first word and width, each word's share of the span's head (section 4.1)."""
        words, widths = real.shape
        inside = torch.ones(widths, widths, dtype=torch.bool, device=h.device).tril()
        inside = inside.expand(words, -1, -1)
        scores = self.head(h).squeeze(-1)[_window(words, widths, h.device)]
        return masked_softmax(scores[:, None].expand_as(inside), inside)

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
        sizes = [h.shape[1], h.shape[1], self.width.embedding_dim, x.shape[1]]
        w_start, w_end, w_width, w_head = first.weight.split(sizes, 1)
        of_start = F.linear(h, w_start, first.bias)
        of_end = F.linear(h, w_end)
        of_head = F.linear(x, w_head)
        scores, features = [], []
        count, most = real.shape
        tables = of_start, real, shares, _window(count, most, h.device)
        blocks = (table.split(WORDS) for table in tables)
        for words, spans, share, window in zip(*blocks, strict=True):
            starts, widths = to_device(spans.nonzero().T.contiguous(), h)
            feature = self.dropout(self.width(widths))
            heads = (share @ of_head[window])[starts, widths]
            ends = of_end[window[starts, widths]]
            hidden = words[starts] + ends + F.linear(feature, w_width) + heads
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
        window = window.clamp(max=len(x) - 1)
        blocks = zip(shares[starts, widths].split(BLOCK), window.split(BLOCK), strict=True)
        heads = torch.cat([(share[:, None] @ x[words])[:, 0] for share, words in blocks])
        return torch.cat([h[starts], h[starts + widths], features, heads], -1)

    def _antecedents(
        self,
        vectors: Float[Tensor, "K H"],
        mention: Float[Tensor, " K"],
        speakers: Int[Tensor, " K"],
        genre: Int[Tensor, ""],
    ) -> Float[Tensor, "K A"]:
        """Score of each span with each span before it: both mentions' and the pair's (equation 4).

        The first layer over [span; antecedent; product; features] is taken apart: what depends on
        one span alone is computed once a span. Pairs are scored in blocks, and again for their
        gradients: of each only its score is kept.
        """
        later, earlier = pairs(len(vectors), self.max_antecedents, vectors.device)
        first, size = self.pair.first, vectors.shape[1]
        sizes = [size, size, size, first.in_features - 3 * size]
        w_later, w_earlier, w_product, w_features = first.weight.split(sizes, 1)
        of_later = F.linear(vectors, w_later, first.bias)
        of_earlier = F.linear(vectors, w_earlier)

        def score(i: Tensor, j: Tensor) -> Tensor:
            features = [
                self.speaker((speakers[i] == speakers[j]).long()),
                self.genre(genre).expand(len(i), -1),
                self.distance(torch.bucketize(i - j, self.bins, right=True)),
            ]
            product = F.linear(vectors[i] * vectors[j], w_product)
            of_features = F.linear(self.dropout(torch.cat(features, -1)), w_features)
            return self.pair.rest(of_later[i] + of_earlier[j] + product + of_features).squeeze(-1)

        most = min(self.max_antecedents, max(len(vectors) - 1, 0))
        scores = mention.new_full((len(vectors), 1 + most), -torch.inf)
        scores[:, 0] = 0
        # Each block goes straight into the table: small results between freed large ones leave
        # holes in memory.
        for i, j in zip(later.split(BLOCK), earlier.split(BLOCK), strict=True):
            pair = checkpoint(score, i, j, use_reentrant=False)
            scores[i, i - j] = pair + mention[i] + mention[j]
        return scores

    def loss(self, rankings: list[Ranking], batch: Batch) -> Float[Tensor, ""]:
        """Minus the log likelihood of each span's correct antecedents, or of the dummy; summed."""
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
    return tokens.cut(part, max(tokens.lengths[part]))


def pairs(
    count: int, most: int, device: torch.device
) -> tuple[Int[Tensor, " P"], Int[Tensor, " P"]]:
    """All pairs of a span and one of the `most` before it, span after span.

    >>> [part.tolist() for part in pairs(4, 2, torch.device("cpu"))]
    [[1, 2, 2, 3, 3], [0, 0, 1, 1, 2]]
    """
    most = min(most, max(count - 1, 0))
    # Of the first spans, span n has n before it; the number of pairs is known on the host.
    before = torch.arange(count, device=device).clamp(max=most)
    total = most * (most + 1) // 2 + most * (count - 1 - most) if count else 0
    later = torch.repeat_interleave(before, output_size=total)
    nth = torch.arange(total, device=device) - (before.cumsum(0) - before)[later]
    return later, later - before[later] + nth


def _window(count: int, widths: int, device: torch.device) -> Int[Tensor, "N W"]:
    """The word that is w words after word n, or the last."""
    return _ends(count, widths, device).clamp(max=count - 1)


def _ends(count: int, widths: int, device: torch.device | None = None) -> Int[Tensor, "N W"]:
    """The word that is w words after word n."""
    first, after = (torch.arange(size, device=device) for size in (count, widths))
    return first[:, None] + after


def candidates(sentence: Int[Tensor, " N"], max_width: int) -> Bool[Tensor, "N W"]:
    """Which spans of words n to n + w there are: those that end within their sentence."""
    count = len(sentence)
    ends = _ends(count, min(max_width, count))
    return (ends < count) & (sentence[ends.clamp(max=count - 1)] == sentence[:, None])


def prune(
    starts: Sequence[int], ends: Sequence[int], scores: Float[Tensor, " S"], most: int
) -> Int[Tensor, " K"]:
    """The positions of the best spans, in order; none crosses a span of a higher score.

    Spans cross if each holds a part of the other. Of the accepted spans it is enough to know how
    far those that begin at a word reach, and from where those that end at a word come: each span
    looks at its own words only.
    """
    reach, origin = [-1] * (max(ends) + 1), [len(ends)] * (max(ends) + 1)
    accepted: list[int] = []
    for span in scores.argsort(descending=True, stable=True).tolist():
        if len(accepted) == most:
            break
        start, end = starts[span], ends[span]
        crosses_right = max(reach[start + 1 : end + 1], default=-1) > end
        crosses_left = min(origin[start:end], default=start) < start
        if crosses_right or crosses_left:
            continue
        reach[start], origin[end] = max(reach[start], end), min(origin[end], start)
        accepted.append(span)
    return torch.tensor(sorted(accepted), dtype=torch.long)


def _gold(mentions: Int[np.ndarray, "M 3"], real: Bool[Tensor, "N W"]) -> Int[Tensor, "N W"]:
    """The gold cluster of each span, 0 for none; mentions wider than a span are lost."""
    starts, ends, clusters = mentions[mentions[:, 1] - mentions[:, 0] < real.shape[1]].T
    grid = np.zeros(real.shape, dtype=np.int64)
    grid[starts, ends - starts] = clusters
    return torch.from_numpy(grid)


def _loss(ranking: Ranking) -> Float[Tensor, ""]:
    scores, clusters = ranking.scores, ranking.clusters
    count, width = scores.shape
    spans, distances = (torch.arange(size, device=scores.device) for size in (count, width))
    antecedents = spans[:, None] - distances
    cluster = clusters[:, None]
    same = (clusters[antecedents.clamp(min=0)] == cluster) & (cluster > 0) & (antecedents >= 0)
    correct = torch.cat([~same[:, 1:].any(1, keepdim=True), same[:, 1:]], 1)
    return (scores.logsumexp(1) - scores.masked_fill(~correct, -torch.inf).logsumexp(1)).sum()


def _clusters(ranking: Ranking) -> list[list[Mention]]:
    mentions = list(zip(ranking.starts.tolist(), ranking.ends.tolist(), strict=True))
    clusters: list[list[Mention]] = []
    homes: dict[int, list[Mention]] = {}
    for span, back in enumerate(ranking.scores.argmax(1).tolist()):
        if back == 0:
            continue
        antecedent = span - back
        if antecedent not in homes:
            homes[antecedent] = [mentions[antecedent]]
            clusters.append(homes[antecedent])
        homes[span] = homes[antecedent]
        homes[span].append(mentions[span])
    return clusters
