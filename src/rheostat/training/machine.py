"""Adapting a training run to this machine: memory, threads, and a precision that works.

Only probes and settings; nothing here changes a result.
"""

from __future__ import annotations

import ctypes
import sys
import time
import warnings

import torch

from rheostat.errors import RheostatWarning
from rheostat.training.layers import LstmLayer

# glibc's names for mallopt (malloc.h)
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
LARGEST_INT = 2**31 - 1

SMALL_STEP_FLOPS = 4_000_000_000
PROBE = 1024  # rows and columns of the products that are timed


def keep_freed_memory() -> bool:
    """Let glibc keep freed blocks for the next step instead of returning them to the system.

    Each step frees and allocates the same few hundred megabytes, and fresh pages from the kernel cost many times as
    much as writing to them. No effect with other C libraries; returns whether it was set.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_MAX, 0)) and bool(mallopt(M_TRIM_THRESHOLD, LARGEST_INT))


def use_threads(threads: int) -> None:
    """Set the processor threads of torch and of the compiled loops."""
    import numba

    torch.set_num_threads(threads)
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]


def sensible_threads(step_flops: int) -> int:
    """One thread for small steps, where threads would wait for each other longer than they work; else torch's choice.

    On a busy machine this matters much more: a step waits until its last thread is scheduled.
    """
    return 1 if step_flops < SMALL_STEP_FLOPS else torch.get_num_threads()


def usable_precision(wanted: str, device: torch.device, *, lstm: bool = False) -> str:
    """The precision to train in: fp32, with a warning, if bf16 products fail or (unless forced) are slower.

    lstm: the model has LSTM layers. Their kernel is torch's own and can lack bf16 even if matrix products have it.
    """
    if wanted == "fp32":
        return wanted
    try:
        if lstm:
            try_lstm(device)
        narrow = product_seconds(torch.bfloat16, device)
    except RuntimeError as error:
        reason = f"this machine cannot compute bf16 products ({str(error).splitlines()[0]})"
    else:
        wide = product_seconds(torch.float32, device)
        if narrow <= wide or wanted == "bf16-always":
            return "bf16"
        reason = f"bf16 products take {narrow / wide:.1f} times as long as fp32 products on this machine"
    warnings.warn(f"{reason}: training in fp32", RheostatWarning, stacklevel=2)
    return "fp32"


def product_seconds(dtype: torch.dtype, device: torch.device) -> float:
    """The best of three times for a product like a layer's, forward and backward."""
    left = torch.randn(PROBE // 2, PROBE, dtype=dtype, device=device, generator=_private_generator(device))
    right = torch.randn(PROBE, PROBE, dtype=dtype, device=device, generator=_private_generator(device))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        product = left @ right.t()
        float((product.t() @ left).sum())  # waits for an accelerator too
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def try_lstm(device: torch.device) -> None:
    """Raises RuntimeError if a step of an LSTM cannot be computed in bf16."""
    with torch.random.fork_rng(devices=[]):  # see _private_generator
        layer = LstmLayer(8, 8).to(device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        hidden, _ = layer(torch.zeros(2, 1, 8, device=device), layer.initial_state(1))
    hidden.sum().backward()


def _private_generator(device: torch.device) -> torch.Generator:
    """A generator of its own, so that probing does not change the run's random numbers."""
    return torch.Generator(device).manual_seed(0)
