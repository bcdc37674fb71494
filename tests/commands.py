"""Commands that tests run in their own process."""

from __future__ import annotations

import os
import signal

import pytest
from typer.testing import CliRunner

from rheostat.cli import app


def rheostat(*arguments: object) -> str:
    """What a command prints on stdout; in this process, since importing torch takes longer than most commands."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def stop_at(step: int, *arguments: object) -> None:
    """Run a command that a signal stops at this step of its training."""
    from rheostat.training import trainer

    draw_length = trainer.draw_length

    def stopping(config: trainer.TrainConfig, steps_done: int) -> int:
        if steps_done == step - 1:  # drawn as a step begins; the run stops when that step has ended
            os.kill(os.getpid(), signal.SIGTERM)
        return draw_length(config, steps_done)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "draw_length", stopping)
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 130, result.stderr
