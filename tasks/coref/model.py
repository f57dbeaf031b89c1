"""End-to-end coreference resolution (Lee et al. 2017): score all spans and rank their antecedents.

Memory is linear in the length of the document: wide tensors are computed for one block of
sentences, words or pairs at a time. Scores are float32, also under autocast.

Axes: B sentences of the batch, T tokens of a sentence, N words of a document, W widths of a span
(0: one word) or words in a span, S spans, K kept spans, A antecedents (0: none), P pairs, M gold
mentions, X x_k, H features.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmo_bench.bounds import Count, Dropout, Positive, Size
from elmo_bench.nn import Backbone, Scores, TaskModel, Tokens, masked_softmax, to_device

from .data import GENRES, Batch, Document, Mention, truncate

DISTANCES = (1, 2, 3, 4, 5, 8, 16, 32, 64)  # lower bound of each bin, in kept spans
TOKENS = 16384  # tokens encoded at once outside training, padding included
WORDS = 2048  # words whose spans are scored at once
BLOCK = 4096  # pairs scored, or spans represented, at once


class Ranking(NamedTuple):
    """The kept spans of a document in text order, their gold clusters (0: none) and scores.

    `scores[i, d]` is the score of span i - d as the antecedent of span i. `scores[i, 0]` belongs to
    the dummy "no antecedent" and is 0.
    """

    starts: Int[Tensor, " K"]
    ends: Int[Tensor, " K"]
    clusters: Int[Tensor, " K"]
    scores: Float[Tensor, "K A"]


def feed_forward(input_size: int, hidden_size: int, dropout: float) -> nn.Sequential:
    """Return two ReLU layers with dropout and a scalar output. The first layer may be split into
    terms that are cheaper to compute.
    """
    first = nn.Linear(input_size, hidden_size)
    second = nn.Linear(hidden_size, hidden_size)
    score = Scores(hidden_size, 1)
    for layer in (first, second, score):
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(
        first, nn.ReLU(), nn.Dropout(dropout), second, nn.ReLU(), nn.Dropout(dropout), score
    )


class SpanRanker(TaskModel):
    """Backbone over sentences -> spans -> mention scores -> the best spans -> antecedent scores.

    With rnn=bilstm, the LSTM is the standard one; that of Lee et al. (2017) has tied gates, learned
    initial states and recurrent dropout. The head of a span is a weighted sum of its words' x_k,
    without ELMo. In training, documents are cut to `max_sentences` consecutive sentences.
    """

    sums_losses = True  # over the documents of a batch
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
    ) -> None:
        super().__init__()
        self.backbone = backbone()
        self.max_width = max_width
        self.spans_per_word = spans_per_word
        self.max_antecedents = max_antecedents
        self.max_sentences = max_sentences
        self.lexical_dropout = lexical_dropout
        self.dropout = nn.Dropout(dropout)
        span_dim = 2 * self.backbone.dim + feature_dim + cast(int, self.backbone.embed.dim)
        # No bias: a softmax over words ignores a constant.
        self.head = Scores(self.backbone.dim, 1, bias=False)
        self.width = _table(max_width, feature_dim)
        self.mention = feed_forward(span_dim, hidden_size, dropout)
        self.speaker = _table(2, feature_dim)
        self.genre = _table(len(GENRES) + 1, feature_dim)
        self.distance = _table(len(DISTANCES) + 1, feature_dim)
        self.register_buffer("bins", torch.tensor(DISTANCES), persistent=False)
        self.pair = feed_forward(3 * span_dim + 3 * feature_dim, hidden_size, dropout)

    def forward(self, batch: Batch) -> list[Ranking]:
        if self.training:
            batch = truncate(batch, self.max_sentences)
        x, h = self.word_vectors(batch.tokens)
        counts = torch.from_numpy(batch.tokens.lengths)
        sentences = torch.arange(len(counts)).repeat_interleave(counts)
        lengths = [len(document.speakers) for document in batch.documents]
        by_document = zip(
            x.split(lengths),
            h.split(lengths),
            sentences.split(lengths),
            batch.documents,
            strict=True,
        )
        return [self._rank(*parts) for parts in by_document]

    def word_vectors(self, tokens: Tokens) -> tuple[Float[Tensor, "N X"], Float[Tensor, "N H"]]:
        """Return the vectors that heads sum, and the outputs of the rnn, for all words."""
        count, length = tokens.mask.shape
        size = count if self.training else max(1, TOKENS // length)
        xs = []
        hs = []
        for first in range(0, count, size):
            rows = range(first, min(first + size, count))
            longest = int(tokens.lengths[rows].max())
            x, h = self._word_vectors(tokens.cut(rows, longest))
            xs.append(x)
            hs.append(h)
        return torch.cat(xs), torch.cat(hs)

    def _word_vectors(self, tokens: Tokens) -> tuple[Float[Tensor, "N X"], Float[Tensor, "N H"]]:
        """Run the backbone step by step: as in the paper, rnn and heads share one dropout mask."""
        backbone = self.backbone
        elmo = backbone.read_elmo(tokens)
        x = F.dropout(backbone.embed(tokens), self.lexical_dropout, self.training)
        h = backbone.run(torch.cat([x, elmo.input], -1), tokens)
        h = self.dropout(torch.cat([h, elmo.output], -1))
        lengths = torch.from_numpy(tokens.lengths)
        is_word = torch.arange(tokens.mask.shape[1]) < lengths[:, None]
        words = to_device(is_word.flatten().nonzero()[:, 0], h)
        return x.flatten(0, 1)[words], h.flatten(0, 1)[words]

    def _rank(
        self,
        x: Float[Tensor, "N X"],
        h: Float[Tensor, "N H"],
        sentence: Int[Tensor, " N"],
        document: Document,
    ) -> Ranking:
        """Choose and rank the spans of one document.

        `sentence` is on the CPU, and so are the tensors derived from it. Choosing the spans
        synchronises with the device.
        """
        real = candidates(sentence, self.max_width)
        shares = self._shares(h, real)
        mention, features = self._mentions(x, h, real, shares)
        starts, widths = real.nonzero(as_tuple=True)
        most = int(self.spans_per_word * len(x))
        kept = prune(starts.tolist(), (starts + widths).tolist(), mention, most)
        starts = starts[kept]
        widths = widths[kept]
        clusters = _gold(document.mentions, real)[starts, widths]
        kept, starts, widths, clusters = to_device(torch.stack([kept, starts, widths, clusters]), x)
        window = _window(len(x), shares.shape[1], x.device)[starts]
        blocks = zip(shares[starts, widths].split(BLOCK), window.split(BLOCK), strict=True)
        heads = torch.cat([(share[:, None] @ x[words])[:, 0] for share, words in blocks])
        # The representations of spans: h at the start, h at the end, width, head.
        vectors = torch.cat([h[starts], h[starts + widths], features[kept], heads], -1)
        speakers = document.speakers[starts]
        scores = self._antecedents(vectors, mention[kept], speakers, document.genre)
        return Ranking(starts, starts + widths, clusters, scores)

    def _shares(self, h: Float[Tensor, "N H"], real: Bool[Tensor, "N W"]) -> Float[Tensor, "N W W"]:
        """Return each span's attention over its words ("Span Representations" in the paper).

        The axes are the span's first word, its width less 1, and its words.
        """
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
        """Return the mention score of each span and the feature vector of its width.

        The first layer over [h at the start; h at the end; width; head] is split into a term for
        each part. Terms of a single word are computed once per word, so that the vectors of all
        spans are never held in memory.
        """
        first = cast(nn.Linear, self.mention[0])
        rest = self.mention[1:]
        sizes = [h.shape[1], h.shape[1], self.width.embedding_dim, x.shape[1]]
        w_start, w_end, w_width, w_head = first.weight.split(sizes, 1)
        of_start = F.linear(h, w_start, first.bias)
        of_end = F.linear(h, w_end)
        of_head = F.linear(x, w_head)
        scores = []
        features = []
        count, most = real.shape
        windows = _window(count, most, h.device)
        blocks = zip(
            of_start.split(WORDS),
            real.split(WORDS),
            shares.split(WORDS),
            windows.split(WORDS),
            strict=True,
        )
        for words, spans, share, window in blocks:
            starts, widths = to_device(spans.nonzero().T.contiguous(), h)
            feature = self.dropout(self.width(widths))
            heads = (share @ of_head[window])[starts, widths]
            ends = of_end[window[starts, widths]]
            hidden = words[starts] + ends + F.linear(feature, w_width) + heads
            scores.append(rest(hidden).squeeze(-1))
            features.append(feature)
        return torch.cat(scores), torch.cat(features)

    def _antecedents(
        self,
        vectors: Float[Tensor, "K H"],
        mention: Float[Tensor, " K"],
        speakers: Int[Tensor, " K"],
        genre: Int[Tensor, ""],
    ) -> Float[Tensor, "K A"]:
        """Return each antecedent's score: the sum of two mention scores and a pair score.

        The first layer over [span; antecedent; product; features] is split into a term for each
        part. Terms of a single span are computed once per span. Pairs are scored in blocks under
        activation checkpointing: only the scores are stored, and blocks are recomputed for the
        gradient.
        """
        most = min(self.max_antecedents, max(len(vectors) - 1, 0))
        later, earlier = to_device(pairs(len(vectors), most), vectors)
        first = cast(nn.Linear, self.pair[0])
        rest = self.pair[1:]
        size = vectors.shape[1]
        sizes = [size, size, size, 3 * self.genre.embedding_dim]
        w_later, w_earlier, w_product, w_features = first.weight.split(sizes, 1)
        of_later = F.linear(vectors, w_later, first.bias)
        of_earlier = F.linear(vectors, w_earlier)

        def score(i: Tensor, j: Tensor) -> Tensor:
            same = (speakers[i] == speakers[j]).long()
            bins = torch.bucketize(i - j, self.bins, right=True)
            parts = [self.speaker(same), self.genre(genre).expand(len(i), -1), self.distance(bins)]
            product = F.linear(vectors[i] * vectors[j], w_product)
            of_features = F.linear(self.dropout(torch.cat(parts, -1)), w_features)
            return rest(of_later[i] + of_earlier[j] + product + of_features).squeeze(-1)

        scores = mention.new_full((len(vectors), 1 + most), -torch.inf)
        scores[:, 0] = 0
        # Write each block into the table at once: keeping small results between large freed
        # tensors fragments memory.
        for i, j in zip(later.split(BLOCK), earlier.split(BLOCK), strict=True):
            pair = checkpoint(score, i, j, use_reentrant=False)
            scores[i, i - j] = pair + mention[i] + mention[j]
        return scores

    def loss(self, rankings: list[Ranking], batch: Batch) -> Float[Tensor, ""]:
        """Return the correct antecedents' negative marginal log-likelihood, summed over kept spans.

        The dummy is correct for a span without a correct antecedent.
        """
        return torch.stack(list(map(_loss, rankings))).sum()

    def decode(self, rankings: list[Ranking], batch: Batch) -> list[list[list[Mention]]]:
        """Return the clusters formed by linking each span to its best antecedent."""
        return list(map(_clusters, rankings))


def _table(size: int, dim: int) -> nn.Embedding:
    table = nn.Embedding(size, dim)
    nn.init.xavier_uniform_(table.weight)
    return table


def pairs(count: int, most: int) -> Int[Tensor, "2 P"]:
    """Return all pairs of a span and one of the `most` spans before it, ordered by span.

    >>> pairs(4, 2).tolist()
    [[1, 2, 2, 3, 3], [0, 0, 1, 1, 2]]
    """
    distances = np.arange(most, 0, -1)
    later, number = (np.arange(count)[:, None] >= distances).nonzero()
    return torch.from_numpy(np.stack([later, later - distances[number]]))


def _window(count: int, widths: int, device: torch.device) -> Int[Tensor, "N W"]:
    """Return the position of the word w words after word n, at most that of the last word."""
    first = torch.arange(count, device=device)
    after = torch.arange(widths, device=device)
    return (first[:, None] + after).clamp(max=count - 1)


def candidates(sentence: Int[Tensor, " N"], max_width: int) -> Bool[Tensor, "N W"]:
    """Return whether the span of words n to n + w ends within its sentence, and so is a candidate.

    `sentence` holds the sentence number of each word.
    """
    width = min(max_width, len(sentence))
    ends = F.pad(sentence, (0, width - 1), value=-1).unfold(0, width, 1)
    return ends == sentence[:, None]


def prune(
    starts: Sequence[int], ends: Sequence[int], scores: Float[Tensor, " S"], most: int
) -> Int[Tensor, " K"]:
    """Return the sorted positions of the best `most` spans; none crosses a better one.

    Two spans cross if they overlap and neither contains the other. Accepted spans are summarised
    by two numbers per word: the furthest end of those that begin there (`reach`) and the earliest
    start of those that end there (`origin`). A span is checked against its own words only.
    """
    num_words = max(ends) + 1
    reach = [-1] * num_words
    origin = [len(ends)] * num_words
    accepted: list[int] = []
    for span in scores.argsort(descending=True, stable=True).tolist():
        if len(accepted) == most:
            break
        start, end = starts[span], ends[span]
        crosses_right = max(reach[start + 1 : end + 1], default=-1) > end
        crosses_left = min(origin[start:end], default=start) < start
        if crosses_right or crosses_left:
            continue
        reach[start] = max(reach[start], end)
        origin[end] = min(origin[end], start)
        accepted.append(span)
    return torch.tensor(sorted(accepted), dtype=torch.long)


def _gold(mentions: Int[np.ndarray, "M 3"], real: Bool[Tensor, "N W"]) -> Int[Tensor, "N W"]:
    """Return the gold cluster of each span, or 0; drop mentions wider than `max_width`."""
    starts, ends, clusters = mentions[mentions[:, 1] - mentions[:, 0] < real.shape[1]].T
    grid = np.zeros(real.shape, dtype=np.int64)
    grid[starts, ends - starts] = clusters
    return torch.from_numpy(grid)


def _loss(ranking: Ranking) -> Float[Tensor, ""]:
    scores = ranking.scores
    clusters = ranking.clusters
    count, width = scores.shape
    spans = torch.arange(count, device=scores.device)
    distances = torch.arange(width, device=scores.device)
    antecedents = spans[:, None] - distances
    cluster = clusters[:, None]
    same = (clusters[antecedents.clamp(min=0)] == cluster) & (cluster > 0) & (antecedents >= 0)
    has_none = ~same[:, 1:].any(1, keepdim=True)
    correct = torch.cat([has_none, same[:, 1:]], 1)
    return (scores.logsumexp(1) - scores.masked_fill(~correct, -torch.inf).logsumexp(1)).sum()


def _clusters(ranking: Ranking) -> list[list[Mention]]:
    mentions = list(zip(ranking.starts.tolist(), ranking.ends.tolist(), strict=True))
    clusters: list[list[Mention]] = []
    homes: dict[int, list[Mention]] = {}  # of a span, its cluster
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
