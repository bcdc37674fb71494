"""Record the outputs of fastai's own QRNN layer in `fastai_qrnn.npz` beside this file.

fastai 1.0.61 has a QRNN, but most of the package does not run on a current torch. Only its module
`fastai/text/models/qrnn.py` is loaded here; the names that it imports from the rest of fastai are
replaced by torch and the standard library. This repository contains nothing of fastai, only its outputs. To run
it again, in a temporary environment:

    python -m venv /tmp/fastai
    /tmp/fastai/bin/pip install torch==2.13.0 numpy setuptools
    /tmp/fastai/bin/pip install --no-deps fastai==1.0.61
    /tmp/fastai/bin/python tests/data/make_fastai_qrnn.py

fastai's convention, left as it is in the file: c_t = f_t ⊙ z_t + (1 - f_t) ⊙ c_{t-1}; rows z, f, o; columns
newest input first; the state is the cell [B, m], and the last input is kept inside the layer.

Per window w (1 and 2) the file holds `w.weight` [3m, w·D] and `w.bias` [3m]; per window and start (`zero`: no
state given, `given`: the cell `initial_cell` [B, m]) it holds `w.start.hidden` [calls, T, B, m] and
`w.start.cell` [calls, B, m]. All of them read the same `inputs` [calls, T, B, D], one call after the other
with the state carried over.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
import sys
import types
import typing

import numpy as np
import torch

OUTPUT = pathlib.Path(__file__).with_name("fastai_qrnn.npz")
SEED = 20181001
CALLS, STEPS, BATCH, INPUT_SIZE, HIDDEN_SIZE = 2, 7, 3, 5, 4


def load_layer_class() -> typing.Any:
    """fastai's QRNNLayer, without importing fastai."""
    found = importlib.util.find_spec("fastai")  # locates a top-level package, does not run it
    if found is None or not found.submodule_search_locations:
        sys.exit("fastai is not installed: pip install --no-deps fastai==1.0.61")
    path = pathlib.Path(found.submodule_search_locations[0], "text", "models", "qrnn.py")
    for name in ("fastai", "fastai.text", "fastai.text.models"):
        package = types.ModuleType(name)
        package.__path__ = []
        sys.modules[name] = package
    names = types.ModuleType("fastai.torch_core")
    names.torch, names.nn, names.F = torch, torch.nn, torch.nn.functional
    names.Module, names.Tensor = torch.nn.Module, torch.Tensor
    names.Optional, names.Path, names.partial = typing.Optional, pathlib.Path, functools.partial
    names.ifnone = lambda value, default: default if value is None else value
    sys.modules[names.__name__] = names

    spec = importlib.util.spec_from_file_location("fastai.text.models.qrnn", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # With a GPU it would compile CUDA kernels; its Python path is what we want.
    torch.cuda.is_available = lambda: False
    spec.loader.exec_module(module)
    return module.QRNNLayer


def record(layer: typing.Any, inputs: torch.Tensor, cell: torch.Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """Hidden outputs and cells of consecutive calls, from the start of a text."""
    layer.reset()
    hidden, cells = [], []
    with torch.no_grad():
        for part in inputs:
            output, cell = layer(part, cell)
            hidden.append(output.numpy())
            cells.append(cell.numpy())
    return np.stack(hidden), np.stack(cells)


def main() -> None:
    layer_class = load_layer_class()
    torch.manual_seed(SEED)
    inputs = torch.randn(CALLS, STEPS, BATCH, INPUT_SIZE)
    initial_cell = torch.randn(BATCH, HIDDEN_SIZE)
    arrays = {"inputs": inputs.numpy(), "initial_cell": initial_cell.numpy()}
    for window in (1, 2):
        layer = layer_class(
            INPUT_SIZE, HIDDEN_SIZE, save_prev_x=True, window=window, output_gate=True, batch_first=False
        )
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=0.7)  # gates well away from one half
        arrays[f"{window}.weight"] = layer.linear.weight.detach().numpy()
        arrays[f"{window}.bias"] = layer.linear.bias.detach().numpy()
        for start, cell in (("zero", None), ("given", initial_cell)):
            hidden, cells = record(layer, inputs, cell)
            arrays[f"{window}.{start}.hidden"], arrays[f"{window}.{start}.cell"] = hidden, cells
    np.savez_compressed(OUTPUT, **arrays)
    print(f"{OUTPUT}: {OUTPUT.stat().st_size} bytes, torch {torch.__version__}")


if __name__ == "__main__":
    main()
