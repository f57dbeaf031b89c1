"""Training a language model: truncated backpropagation with carried state (paper, section 3.1).
Windows that begin with a sentence begin from a zero state, in which tasks read sentences: a
language model that never met one may predict badly from it.

A step is a function of (seed, step number) and of what `state_dict` holds: the order of the
sentences, dropout and the sampled words are drawn from generators made of those numbers. So a run
that was killed goes on to the same bits.

Axes: B batch, T tokens, N tokens in all, P one direction, R rows of the softmax.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo_bench.encoders.bilm import DIRECTIONS, State
from elmo_bench.text.chars import WIDTH, word_frame

from .corpus import FIRST, NO_TARGET, Corpus
from .model import LanguageModel, or_damaged
from .sampled import Candidates, candidates, sampled_loss

Window = tuple[np.ndarray, np.ndarray]  # inputs, targets: "B T"
Maker = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """How to train a language model; `conf/job/pretrain.yaml` describes the settings."""

    epochs: int
    batch_size: int
    unroll: int
    lr: float
    gradient_clip: float
    max_steps: int | None = None
    warmup: int = 0
    cosine: bool = True
    loss_scale: float = 1.0
    samples: int | None = None  # None means the full softmax
    bf16: bool = False
    state: str = "zero"  # "zero": reset where a window begins with a sentence; "carried": kept
    seed: int = 1

    @classmethod
    def of(cls, settings: Mapping[str, Any], num_words: int, **changes: Any) -> "Training":
        """Return what a config says of it, for a vocabulary of so many words, more than
        `full_up_to` of which are sampled; `changes` come first.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        values = {name: settings[name] for name in names & set(settings)}
        if num_words <= max(settings["full_up_to"], settings["samples"]):
            changes["samples"] = None
        return cls(**(values | changes))

    def lr_at(self, step: int, num_steps: int) -> float:
        """Return a step's learning rate: a linear rise, then constant or a half cosine to 0."""
        fall = 0.5 * (1 + math.cos(math.pi * step / num_steps)) if self.cosine else 1.0
        return self.lr * fall * min(1.0, (step + 1) / (self.warmup + 1))


class Trainer:
    """A language model, its text, its optimizers, and the progress of its training."""

    def __init__(
        self, model: LanguageModel, corpus: Corpus, settings: Training, dense: Maker, sparse: Maker
    ) -> None:
        # `dense` is for the weights that every step changes, `sparse` for a sampled softmax
        self.model = model
        self.corpus = corpus
        self.settings = settings
        self.dense = list((model.bilm if settings.samples else model).parameters())
        self.optimizers = [dense(self.dense)]
        if settings.samples:
            self.optimizers.append(sparse(model.softmax.parameters()))
        self._shape = {"batch_size": settings.batch_size, "unroll": settings.unroll}
        self.epoch_steps = corpus.num_windows(**self._shape)
        self.num_steps = settings.epochs * self.epoch_steps
        if settings.max_steps is not None:
            self.num_steps = min(self.num_steps, settings.max_steps)
        self.step = 0
        self.device = model.softmax.weight.device
        self.state = model.bilm.zero_state(settings.batch_size)
        frames = map(word_frame, corpus.words)  # "U C"
        self._frames = np.fromiter(frames, np.dtype((np.int16, WIDTH)), len(corpus.words))
        # NO_TARGET (-1) indexes the last element.
        self._numbers = np.append(model.numbers_of(corpus.words), NO_TARGET)

    def run(self) -> Iterator[float]:
        """Train from the current step to the end, and yield the loss of each step (nats per
        prediction, mean of the directions). Raises FloatingPointError, with the step, if the loss
        or gradient is not finite.
        """
        self.model.train()
        while self.step < self.num_steps:
            epoch, start = divmod(self.step, self.epoch_steps)
            if start == 0:
                self.state = self.model.bilm.zero_state(self.settings.batch_size)
            streams = []
            for name in self.model.directions:
                rng = np.random.default_rng((self.settings.seed, epoch, DIRECTIONS.index(name)))
                streams.append(self.corpus.windows(name, **self._shape, rng=rng, start=start))
            for windows in islice(zip(*streams, strict=True), self.num_steps - self.step):
                yield self._step(windows)

    def _step(self, windows: Sequence[Window]) -> float:
        """Train one step on each direction's window; return the loss."""
        seed = np.random.SeedSequence((self.settings.seed, self.step, 0))
        torch.manual_seed(int(seed.generate_state(1)[0]))
        words = [inputs for inputs, _ in windows]
        goals = [self._numbers[targets].flatten() for _, targets in windows]
        autocast = torch.autocast(
            self.device.type,
            torch.bfloat16,
            enabled=self.settings.bf16,
            # With the cache, both directions' gradients would be summed in bfloat16.
            cache_enabled=False,
        )
        with autocast:
            tops = self._tops(words)
            rows, gathered, sums = self._losses(tops, goals)
        means = []
        for loss_sum, goal in zip(sums, goals, strict=True):
            num_predictions = int((goal != NO_TARGET).sum())
            means.append(loss_sum / num_predictions)
        loss = torch.stack(means).mean()
        parameters = self.dense + gathered
        for parameter in parameters:
            parameter.grad = None
        (loss * self.settings.loss_scale).backward()
        norm = nn.utils.clip_grad_norm_(parameters, self.settings.gradient_clip)
        mean, length = torch.stack([loss.detach(), norm]).tolist()  # waits for the device
        if not math.isfinite(mean + length):
            raise FloatingPointError(
                f"step {self.step + 1}: the loss is {mean} and the norm of its gradient "
                f"{length}; choose a lower learning rate (pretrain.lr or adapt.lr) than "
                f"{self.settings.lr}{or_damaged(self.model.source)}"
            )
        self._update(rows, gathered)
        self.step += 1
        return mean

    def _tops(self, windows: Sequence[np.ndarray]) -> list[Tensor]:
        """Return the top layer of each direction's window, after dropout, and update the state. A
        word is encoded once, however often it occurs in the windows.
        """
        words = np.stack(windows)  # "R B T"
        state = self.state
        if self.settings.state == "zero":  # at windows that begin with a sentence
            begins = torch.from_numpy(words[:, :, 0] < len(FIRST))
            goes_on = ~begins[:, None, :, None].to(self.device)
            state = State(state.h * goes_on, state.c * goes_on)
        types, places = np.unique(words, return_inverse=True)
        chars = torch.from_numpy(self._frames[types].astype(np.int64)).to(self.device)
        rows = torch.from_numpy(places.reshape(words.shape)).to(self.device)
        bilm = self.model.bilm
        tops, after = bilm.run(bilm.token_encoder(chars)[rows], state)
        self.state = State(after.h.detach(), after.c.detach())
        return [top.flatten(0, 1) for top in tops]

    def _losses(
        self, tops: Sequence[Tensor], goals: Sequence[np.ndarray]
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Return the rows of a sampled softmax that this step uses, copies of their weights and
        biases, and each direction's summed negative log likelihood.
        """
        softmax = self.model.softmax
        losses: list[Tensor] = []
        if not self.settings.samples:
            for top, goal in zip(tops, goals, strict=True):
                targets = torch.from_numpy(goal).to(self.device)
                loss = F.cross_entropy(
                    softmax(top), targets, ignore_index=NO_TARGET, reduction="sum"
                )
                losses.append(loss)
            return torch.empty(0), [], losses
        rng = np.random.default_rng((self.settings.seed, self.step))
        wanted = [goal[goal != NO_TARGET] for goal in goals]
        rows, chosen = candidates(wanted, self.settings.samples, softmax.out_features, rng)
        rows = rows.to(self.device)
        weight = softmax.weight.detach()[rows].requires_grad_()
        bias = softmax.bias.detach()[rows].requires_grad_()
        for top, goal, part in zip(tops, goals, chosen, strict=True):
            among = Candidates(*(tensor.to(self.device) for tensor in part))
            tokens = torch.from_numpy(np.flatnonzero(goal != NO_TARGET)).to(self.device)
            losses.append(sampled_loss(top[tokens], weight, bias, among))
        return rows, [weight, bias], losses

    def _update(self, rows: Tensor, gathered: Sequence[Tensor]) -> None:
        """Step each optimizer; a sampled softmax's gradient is sparse, and rows without a gradient
        cost nothing.
        """
        # Explicit, since torch warns of the default.
        with torch.sparse.check_sparse_tensor_invariants(False):
            for whole, part in zip(self.model.softmax.parameters(), gathered, strict=False):
                gradient: Any = part.grad
                whole.grad = torch.sparse_coo_tensor(
                    rows[None], gradient, whole.shape, is_coalesced=True
                )
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = self.settings.lr_at(self.step, self.num_steps)
                optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to continue."""
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "state": list(self.state),
        }

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a `state_dict`. The optimizers keep their present settings."""
        self.model.load_state_dict(saved["model"])
        for optimizer, before in zip(self.optimizers, saved["optimizers"], strict=True):
            settings = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": before["state"], "param_groups": settings})
        self.step = saved["step"]
        values = list(saved["state"])
        for optimizer in self.optimizers:
            for of_parameter in optimizer.state.values():
                values += of_parameter.values()
        if not all(torch.as_tensor(value).isfinite().all() for value in values):
            raise ValueError(
                "the state of the streams or optimizers contains a number that is not finite"
            )
        h, c = saved["state"]
        self.state = State(h.to(self.device), c.to(self.device))
