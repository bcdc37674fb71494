"""`rheostat train`: text in, model file out."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from rheostat.cli.console import INTERRUPTED, messages, print_json
from rheostat.errors import RecipeError
from rheostat.metrics import Quality, perplexity
from rheostat.model_file import open_model
from rheostat.recipe import read_recipe, recipe_names

if TYPE_CHECKING:
    from rheostat.training.trainer import Progress as RunProgress

LINE_SECONDS = 30.0  # between lines where there is no terminal for a bar


def train(
    recipe: Annotated[
        str, typer.Argument(help=f"A recipe's name ({', '.join(recipe_names())}) or a .toml file; not with --resume.")
    ] = "",
    data: Annotated[
        list[str] | None,
        typer.Option(help="A folder with train, valid and test text; or three times a file; or 'chat' or 'talk'."),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder of the run.")] = Path("runs/latest"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Only write the model as it is before training, to measure its time.")
    ] = False,
    from_model: Annotated[
        Path | None, typer.Option("--from", help="Start from the weights of this model file.")
    ] = None,
    changes: Annotated[list[str] | None, typer.Option("--set", help="Change a value, as in train.epochs=2.")] = None,
    vocabulary: Annotated[Path | None, typer.Option(help="A vocabulary file: a word and its count a line.")] = None,
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0: as many as the model keeps busy.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a language model.

    The best model so far is always in OUT/model.safetensors. A run that was killed, or stopped with Ctrl-C, goes on
    with --resume.

    Example: rheostat train ptb --data DIR -o runs/ptb
    """
    if resume and (recipe or changes or data or from_model or vocabulary or untrained):
        raise RecipeError("a resumed run keeps its recipe and corpus: give only --resume and -o")
    if not resume and not recipe:
        raise RecipeError(f"no recipe given; expected one of {', '.join(recipe_names())}, or a .toml file")
    from rheostat.training import run
    from rheostat.training.trainer import InterruptedRunError

    with RunBar() as bar:
        try:
            if resume:
                progress = run.resume(out, bar, bar.reading)
            else:
                request = run.Request(
                    recipe=read_recipe(recipe, changes or ()),
                    data=tuple(data or ()),
                    vocabulary_file=str(vocabulary) if vocabulary else None,
                    from_model=str(from_model) if from_model else None,
                    threads=threads,
                )
                if untrained:
                    _report_untrained(run.write_untrained(request, out, bar.reading), json)
                    return
                progress = run.start(request, out, bar, bar.reading)
        except InterruptedRunError as stop:
            bar.message(f"{stop}; go on with: rheostat train --resume -o {out}")
            sys.exit(INTERRUPTED)
    if run.is_first_process():
        _report(out, progress, json)


def _report(out: Path, progress: RunProgress, json: bool) -> None:
    model, best = out / "model.safetensors", perplexity(progress.best_loss)
    with open_model(model) as file:
        shares = file.description.provenance["run"].get("valid_over_shares", [])
    if json:
        figures = {"model": str(model), "epochs": progress.epoch, "steps": progress.step, "valid_perplexity": best}
        print_json({**figures, "valid_over_shares": shares} if shares else figures)
        return
    widths = f" over {' '.join(f'{share:.0%}' for share in shares)} of the FLOPs together," if shares else ""
    print(f"{model}: valid perplexity {best:.2f}{widths} after {progress.epoch} epochs, {progress.step} steps")


def _report_untrained(model: Path, json: bool) -> None:
    if json:
        print_json({"model": str(model), "steps": 0})
    else:
        print(f"{model}: not trained")


class RunBar:
    """A run as a progress bar on a terminal, as a line now and then elsewhere."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=messages,
            disable=not messages.is_terminal,
            speed_estimate_period=600,
        )
        self._run = self._bar.add_task("starting", total=1.0, figures="")
        self._validation = self._bar.add_task("validating", total=1.0, figures="", visible=False)
        self._reading: dict[str, TaskID] = {}
        self._last_line = 0.0

    def __enter__(self) -> RunBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, progress: RunProgress, share: float, loss: float, tokens_per_second: float) -> None:
        figures = f"{tokens_per_second:,.0f} tokens/s  perplexity {perplexity(loss):.1f}"
        if progress.losses:
            figures += f"  best valid {perplexity(progress.best_loss):.2f}"
        self._bar.update(
            self._run, completed=share, description=f"epoch {progress.epoch + 1} step {progress.step}", figures=figures
        )
        if not messages.is_terminal and time.monotonic() - self._last_line > LINE_SECONDS:
            self._last_line = time.monotonic()
            self.message(f"epoch {progress.epoch + 1} step {progress.step} {share:.1%}  {figures}")

    def reading(self, label: str, share: float) -> None:
        """The corpus on its way into the token cache, a bar for each file."""
        if label not in self._reading:
            self._reading[label] = self._bar.add_task(label, total=1.0, figures="")
        self._bar.update(self._reading[label], completed=share, visible=share < 1)

    def validating(self, share: float) -> None:
        self._bar.update(self._validation, completed=share, visible=share < 1)

    def validated(self, progress: RunProgress, quality: Quality, improved: bool) -> None:
        mark = ", the best so far" if improved else ""
        self.message(
            f"epoch {progress.epoch}: valid perplexity {quality.perplexity:.2f}, R@3 {quality.recall[3]:.2%}{mark}"
        )

    def message(self, text: str) -> None:
        messages.print(text, markup=False, highlight=False, soft_wrap=True)
