"""Training steps of the trainer against a transcription of Merity et al. (2017): the loss and both activation
penalties (section 4.6 there), a random length with its rescaled rate (4.1), clipping, SGD and the average (3).

The transcription walks the text, the layers and the softmax in plain loops, in float64, and lets torch differentiate.
Dropout is off: it is random, and has its own tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rheostat.model.shape import ModelShape  # noqa: E402
from rheostat.training import trainer as trainer_module  # noqa: E402
from rheostat.training.configuration import TrainConfig  # noqa: E402
from rheostat.training.language_model import LanguageModel  # noqa: E402
from rheostat.training.regularization import RegularizationConfig  # noqa: E402
from rheostat.training.run_folder import RunFolder  # noqa: E402
from rheostat.training.session import make_fabric  # noqa: E402
from rheostat.training.task import WeightTask  # noqa: E402
from rheostat.training.trainer import Trainer  # noqa: E402

SHAPE = ModelShape(13, 4, (7, 6, 4), (2, 1, 1))
LENGTHS = [9, 5, 12, 7, 7, 10, 6, 9, 8, 11]  # of ten steps: the trainer logs its loss after the tenth
TEXTS, ROWS = 3, 41  # the text starts again after the fifth step, and ends in the tenth
IDS = np.random.default_rng(5).integers(SHAPE.vocabulary_size, size=TEXTS * ROWS + 2)
SEQUENCE_LENGTH, RATE, DECAY = 8, 2.0, 1e-3
ACTIVATION, TEMPORAL_ACTIVATION = 2.0, 1.5


class Silence:
    """A reporter that reports nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def start_weights() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return {name: torch.rand(size, generator=generator) - 0.5 for name, size in SHAPE.tensor_shapes().items()}


class Transcription:
    """Weights, and what the paper does with them."""

    def __init__(self, clip: float) -> None:
        self.weights = {name: tensor.double().requires_grad_() for name, tensor in start_weights().items()}
        self.sums = {name: torch.zeros_like(tensor) for name, tensor in self.weights.items()}
        self.clip, self.norms, self.losses, self.tokens = clip, [], [], []
        self.restart()

    def restart(self) -> None:
        """Before a text begins, every cell and every input is zero."""
        self.cells = [torch.zeros(TEXTS, size, dtype=torch.float64) for size in SHAPE.hidden_sizes]
        self.last_words = torch.zeros(TEXTS, SHAPE.embedding_size, dtype=torch.float64)

    def read(self, ids: torch.Tensor) -> torch.Tensor:
        """Outputs [T, B, D] of the last layer. Only the first layer also sees the previous word."""
        outputs = []
        for row in ids:
            words = self.weights["embedding.weight"][row]
            x = torch.cat([self.last_words, words], dim=1)
            self.last_words = words
            for layer in range(len(SHAPE.hidden_sizes)):
                gates = x @ self.weights[f"layers.{layer}.weight"].T + self.weights[f"layers.{layer}.bias"]
                z, f, o = gates.chunk(3, dim=1)
                forget = torch.sigmoid(f)
                self.cells[layer] = forget * self.cells[layer] + (1 - forget) * torch.tanh(z)
                x = torch.sigmoid(o) * self.cells[layer]
            outputs.append(x)
        return torch.stack(outputs)

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        h = self.read(inputs)
        logits = h @ self.weights["embedding.weight"].T + self.weights["output.bias"]
        nll = torch.logsumexp(logits, -1) - logits.gather(-1, targets[..., None])[..., 0]
        loss = nll.mean()
        penalty = ACTIVATION * (h**2).mean() + TEMPORAL_ACTIVATION * ((h[1:] - h[:-1]) ** 2).mean()
        names = list(self.weights)
        gradients = dict(
            zip(names, torch.autograd.grad(loss + penalty, [self.weights[name] for name in names]), strict=True)
        )
        norm = sum(float((gradient**2).sum()) for gradient in gradients.values()) ** 0.5
        scale = min(1.0, self.clip / norm) if self.clip else 1.0
        rate = RATE * len(inputs) / SEQUENCE_LENGTH
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight -= rate * (scale * gradients[name] + DECAY * weight)
                self.sums[name] += weight
        self.cells = [cell.detach() for cell in self.cells]
        self.last_words = self.last_words.detach()
        self.norms.append(norm)
        self.losses.append(float(loss.detach()))
        self.tokens.append(targets.numel())

    def train(self) -> None:
        columns = torch.from_numpy(IDS[: TEXTS * ROWS].reshape(TEXTS, ROWS).T.copy())  # [rows, texts]
        position = 0
        for length in LENGTHS:
            end = min(position + length, ROWS - 1)  # the last row is only a target
            self.step(columns[position:end], columns[position + 1 : end + 1])
            position = end
            if position == ROWS - 1:
                position = 0
                self.restart()


@pytest.mark.parametrize("clip", [0.2, 0.0])
def test_ten_steps_are_those_of_the_paper(clip: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Transcription(clip)
    expected.train()
    assert min(expected.norms) < 0.2 < max(expected.norms) / 1.5, "some steps are clipped, and some are not"

    monkeypatch.setattr(trainer_module, "draw_length", lambda config, step: LENGTHS[step])
    config = TrainConfig(
        steps=len(LENGTHS), batch_size=TEXTS, sequence_length=SEQUENCE_LENGTH, optimizer="nt-asgd", learning_rate=RATE,
        weight_decay=DECAY, clip=clip, average_from=0.0, nonmonotone_interval=100,
    )  # fmt: skip
    penalties = RegularizationConfig(activation=ACTIVATION, temporal_activation=TEMPORAL_ACTIVATION)
    model = LanguageModel.from_weights(SHAPE, start_weights())
    task = WeightTask(model, penalties, IDS[:30], lambda *_: None)
    folder = RunFolder(tmp_path)
    Trainer(task, IDS, config, folder, make_fabric(), Silence(), {}).run()
    saved = folder.load()
    for name, weight in expected.weights.items():
        assert not torch.allclose(saved["parameters"][name], start_weights()[name], atol=1e-2), name
        ours, means = saved["parameters"][name].double(), saved["average"]["means"][name].double()
        torch.testing.assert_close(ours, weight.detach(), rtol=2e-4, atol=2e-5, msg=name)
        torch.testing.assert_close(means, expected.sums[name] / len(LENGTHS), rtol=2e-4, atol=2e-5, msg=name)
    (logged,) = [entry for entry in map(json.loads, folder.log.read_text().splitlines()) if entry["event"] == "train"]
    assert logged["loss"] == pytest.approx(np.average(expected.losses, weights=expected.tokens), rel=1e-5)
    assert logged["rate"] == pytest.approx(RATE * expected.tokens[-1] / TEXTS / SEQUENCE_LENGTH)
