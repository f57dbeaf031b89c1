"""Training a language model on one process or several: truncated backpropagation with carried state
(paper, section 3.1). Windows that begin with a sentence begin from a zero state, in which tasks
read sentences: a language model that never met one may predict badly from it.

A step is a function of (seed, step number, process) and of what `state_dict` holds: the order of
the sentences, dropout and the sampled words are drawn from generators made of those numbers. So a
run that was killed goes on to the same bits.

Several processes (`torch.distributed`) share a batch by rows; its loss is the mean over all of
them, as if there were one.

Axes: B batch, T tokens, N tokens in all, P one direction, R rows of the softmax.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from elmo_bench.encoders.bilm import DIRECTIONS, State

from .corpus import FIRST, NO_TARGET, Corpus
from .model import LanguageModel, or_damaged
from .sampled import Candidates, candidates, sampled_loss

Window = tuple[np.ndarray, np.ndarray]  # inputs, targets: "B T"
MakeOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


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
    def of(cls, settings: Mapping[str, Any], **changes: Any) -> "Training":
        """Return what a config says of it; `changes` come first."""
        plan: dict[str, Any] = {
            field.name: float(settings[field.name]) if field.type is float else settings[field.name]
            for field in dataclasses.fields(cls)
            if field.name in settings
        }
        return cls(**plan | changes)

    def lr_at(self, step: int, num_steps: int) -> float:
        """Return the learning rate of a step: it rises linearly, then stays constant or decays to 0
        along a half cosine.
        """
        fall = 0.5 * (1 + math.cos(math.pi * step / num_steps)) if self.cosine else 1.0
        return self.lr * fall * min(1.0, (step + 1) / (self.warmup + 1))


class Step(NamedTuple):
    """The results of a step to report."""

    loss: float  # nats per prediction, mean of the directions
    num_tokens: int
    is_last: bool  # whether a process was told to stop


class Trainer:
    """A language model, its text, its optimizers, and the progress of its training."""

    def __init__(
        self,
        model: LanguageModel,
        corpus: Corpus,
        settings: Training,
        *,
        dense: MakeOptimizer,
        sparse: MakeOptimizer,
    ) -> None:
        """`dense` makes the optimizer of the weights that every step changes, `sparse` that of a
        sampled softmax.
        """
        self.model, self.corpus, self.settings = model, corpus, settings
        self.rank, self.num_processes = (
            (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        )
        if settings.batch_size % self.num_processes:
            raise ValueError(
                f"pretrain.batch_size={settings.batch_size} is not divisible by the number of "
                f"processes, {self.num_processes}"
            )
        self.dense = list((model.bilm if settings.samples else model).parameters())
        self.optimizers = [dense(self.dense)]
        if settings.samples:
            self.optimizers.append(sparse(model.softmax.parameters()))
        self._shape = {"batch_size": settings.batch_size, "unroll": settings.unroll}
        self.epoch_steps = corpus.num_windows(**self._shape)
        self.num_steps = settings.epochs * self.epoch_steps
        if settings.max_steps is not None:
            self.num_steps = min(self.num_steps, settings.max_steps)
        self.step, self.stopping = 0, False
        self.device = model.softmax.weight.device
        self.state = self._zero_state()
        size = settings.batch_size // self.num_processes
        self._mine = slice(size * self.rank, size * (self.rank + 1))
        # The weights of this step's rows of a sampled softmax.
        self._rows, self._gathered = torch.empty(0), list[Tensor]()
        self._frames = corpus.frames(model.bilm.options.max_characters)
        # NO_TARGET (-1) indexes the last element.
        self._numbers = np.array([*map(model.number, corpus.words), NO_TARGET])

    @property
    def epoch(self) -> int:
        """The epoch of the last step, from 1."""
        return max(0, self.step - 1) // self.epoch_steps + 1

    def stop(self) -> None:
        """Tell all processes, with the results of the next step, to stop."""
        self.stopping = True

    def run(self) -> Iterator[Step]:
        """Train from the current step to the end. Raises FloatingPointError, with the step, if the
        loss or gradient is not finite.
        """
        self.model.train()
        while self.step < self.num_steps:
            epoch, start = divmod(self.step, self.epoch_steps)
            if not start:
                self.state = self._zero_state()
            streams = [self._windows(d, epoch, start) for d in self.model.directions]
            for windows in zip(*streams, strict=True):
                if self.step == self.num_steps:
                    return
                yield self._step(windows)

    def _windows(self, direction: str, epoch: int, start: int) -> Iterator[Window]:
        seed = self.settings.seed, epoch, DIRECTIONS.index(direction)
        rng = np.random.default_rng(seed)
        return self.corpus.windows(direction, **self._shape, rng=rng, start=start)

    def _step(self, windows: Sequence[Window]) -> Step:
        """Train one step on each direction's window."""
        loss = torch.stack(self._losses(windows)).mean()
        for parameter in self._parameters():
            parameter.grad = None
        (loss * self.settings.loss_scale).backward()
        gradients = [p.grad for p in self._parameters() if p.grad is not None]
        total, stopping = loss.detach(), loss.new_tensor(float(self.stopping))
        self._sum([total, stopping, *gradients])
        norm = nn.utils.clip_grad_norm_(self._parameters(), self.settings.gradient_clip)
        # Each read waits for the device.
        mean, length, stops = torch.stack([total, norm, stopping]).tolist()
        if not math.isfinite(mean + length):
            raise FloatingPointError(
                f"step {self.step + 1}: the loss is {mean} and the norm of its gradient "
                f"{length}; choose a lower learning rate (pretrain.lr or adapt.lr) than "
                f"{self.settings.lr}{or_damaged(self.model.source)}"
            )
        self._update()
        self.step += 1
        return Step(mean, windows[0][0].size, stops > 0)

    def _losses(self, windows: Sequence[Window]) -> list[Tensor]:
        """Return each direction's mean loss, of which this process computes a part, and update the
        state.
        """
        seed = np.random.SeedSequence((self.settings.seed, self.step, self.rank))
        torch.manual_seed(int(seed.generate_state(1)[0]))
        wanted = [self._numbers[targets] for _, targets in windows]  # targets of all processes
        chosen = self._gather(wanted) if self.settings.samples else [None] * len(wanted)
        losses, after = [], []
        with torch.autocast(
            self.device.type,
            torch.bfloat16,
            enabled=self.settings.bf16,
            cache_enabled=False,  # otherwise both directions' gradients are summed in bfloat16
        ):
            tops = self._tops([inputs[self._mine] for inputs, _ in windows])
            for (top, now), targets, among in zip(tops, wanted, chosen, strict=True):
                loss = self._loss(top, targets, among)
                losses.append(loss / int((targets != NO_TARGET).sum()))
                after.append(now)
        self.state = State(*(torch.stack(parts).detach() for parts in zip(*after, strict=True)))
        return losses

    def _gather(self, wanted: list[np.ndarray]) -> list[Candidates]:
        """Draw the samples, which all processes share, and gather the rows of the softmax that the
        step uses.
        """
        goals = [targets[targets != NO_TARGET] for targets in wanted]
        rng = np.random.default_rng((self.settings.seed, self.step))
        size = len(self.model.vocabulary)
        rows, chosen = candidates(goals, self.settings.samples or 0, size, rng)
        self._rows = rows.to(self.device)
        self._gathered = [
            parameter.detach()[self._rows].requires_grad_()
            for parameter in self.model.softmax.parameters()
        ]
        return chosen

    def _loss(self, top: Tensor, targets: np.ndarray, chosen: Candidates | None) -> Tensor:
        """Return the summed negative log likelihood of this process's rows of the targets."""
        if chosen is None:
            goal = torch.from_numpy(targets[self._mine]).to(self.device).flatten()
            scores = self.model.softmax(top).flatten(0, 1)
            return F.cross_entropy(scores, goal, ignore_index=NO_TARGET, reduction="sum")
        here = targets != NO_TARGET
        rows = np.zeros_like(here)
        rows[self._mine] = True
        mine = chosen.of(torch.from_numpy(rows[here])).to(self.device)
        weight, bias = self._gathered
        tokens = torch.from_numpy(np.flatnonzero(here[self._mine])).to(self.device)
        return sampled_loss(top.flatten(0, 1)[tokens], weight, bias, mine)

    def _tops(self, windows: Sequence[np.ndarray]) -> Iterator[tuple[Tensor, State]]:
        """Return the top layer of each direction's window, and its next state."""
        state = self.state
        if self.settings.state == "zero":  # at windows that begin with a sentence
            begins = torch.from_numpy(np.stack([inputs[:, 0] < len(FIRST) for inputs in windows]))
            state = State(*(x * ~begins[:, None, :, None].to(self.device) for x in state))
        return self.model.tops(self._frames, windows, state)

    def _parameters(self) -> list[Tensor]:
        """Return the parameters with a gradient in this step: for a sampled softmax, only the
        gathered rows.
        """
        return [*self.dense, *self._gathered]

    def _update(self) -> None:
        """Step each optimizer; a sampled softmax's gradient is sparse, and rows without a gradient
        cost nothing.
        """
        # Explicit, since torch warns of the default.
        with torch.sparse.check_sparse_tensor_invariants(False):
            pairs = zip(self.model.softmax.parameters(), self._gathered, strict=False)
            for parameter, gathered in pairs:
                gradient = cast(Tensor, gathered.grad)
                parameter.grad = torch.sparse_coo_tensor(
                    self._rows[None], gradient, parameter.shape, is_coalesced=True
                )
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = self.settings.lr_at(self.step, self.num_steps)
                optimizer.step()

    def _sum(self, tensors: list[Tensor]) -> None:
        """Sum over all processes, in place."""
        if self.num_processes > 1:
            flat = torch.cat([tensor.flatten() for tensor in tensors])
            dist.all_reduce(flat)
            parts = flat.split([tensor.numel() for tensor in tensors])
            for tensor, summed in zip(tensors, parts, strict=True):
                tensor.copy_(summed.view_as(tensor))

    def _zero_state(self) -> State:
        return self.model.bilm.zero_state(self.settings.batch_size // self.num_processes)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to continue. Every process must call it, since each holds the
        state of its own rows.
        """
        return {
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "state": [self._of_all_processes(rows) for rows in self.state],
        }

    def _of_all_processes(self, rows: Tensor) -> Tensor:
        if self.num_processes == 1:
            return rows
        gathered = [torch.empty_like(rows) for _ in range(self.num_processes)]
        dist.all_gather(gathered, rows.contiguous())
        return torch.cat(gathered, 2)

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from a `state_dict`, with the same or another number of processes.

        The optimizers keep their present settings.
        """
        self.model.load_state_dict(saved["model"])
        for optimizer, before in zip(self.optimizers, saved["optimizers"], strict=True):
            settings = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": before["state"], "param_groups": settings})
        self.step = saved["step"]
        moments = (one for optimizer in self.optimizers for one in optimizer.state.values())
        values = [*saved["state"], *(value for one in moments for value in one.values())]
        if not all(torch.as_tensor(value).isfinite().all() for value in values):
            raise ValueError(
                "the state of the streams or optimizers contains a number that is not finite"
            )
        state = [x.chunk(self.num_processes, 2)[self.rank].to(self.device) for x in saved["state"]]
        self.state = State(*state)
