"""The README and docs/ are true of the program."""

from __future__ import annotations

import inspect
import re
import runpy
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import rheostat
from models import write_tiny
from rheostat import bundled
from rheostat.cli import app
from rheostat.measure.results import read_all
from rheostat.model.file import open_model
from rheostat.report.evidence import gather
from rheostat.report.training_free import best_line, chosen_among, whole_lines

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
COMMANDS = get_command(app)


def blocks(page: Path, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [block for name, block in fenced if name == language]


def commands() -> list[tuple[str, str]]:
    """Every `rheostat …` command of every shell block."""
    found = []
    for page in PAGES:
        text = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
        for line in text.splitlines():
            for part in re.split(r"&&|\||;", line.partition("#")[0]):
                if "rheostat " in part and ("-m rheostat" in part or part.strip().startswith("rheostat ")):
                    found.append((page.name, part.partition("rheostat ")[2].strip()))
    return found


@pytest.mark.parametrize(("page", "command"), commands())
def test_every_command_shown_can_be_called_like_that(page: str, command: str) -> None:
    name, *arguments = shlex.split(command)
    assert name in COMMANDS.commands, f"{page}: no command {name}"  # type: ignore[attr-defined]
    if arguments != ["--help"]:
        COMMANDS.commands[name].make_context(name, arguments)  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_mentioned_in_text_exist(page: Path) -> None:
    for name, arguments in re.findall(r"`rheostat ([a-z]+)([^`\n]*)`", page.read_text(encoding="utf-8")):
        assert name in COMMANDS.commands, f"{page.name}: no command {name}"  # type: ignore[attr-defined]
        known = {option for item in COMMANDS.commands[name].params for option in item.opts}  # type: ignore[attr-defined]
        assert set(re.findall(r"--[a-z-]+", arguments)) <= known | {"--help"}


def write_corpus(folder: Path) -> None:
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("word3 word4 word5\nword4 word3\n" * 20)


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/api.md",
        "docs/default-model.md",
        "docs/runtime.md",
        "docs/governor.md",
        "docs/file-format.md",
        "docs/embedding.md",
    ],
)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny(tmp_path / "model.safetensors")
    write_tiny(tmp_path / f"{bundled.DEFAULT_MODEL}.safetensors")
    write_corpus(tmp_path / "corpus")
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    monkeypatch.setenv("RHEOSTAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    examples = blocks(ROOT / page, "python")
    assert examples
    for example in examples:
        exec(compile(example, page, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_that_is_too_slow_to_run_compiles(page: Path) -> None:
    for example in blocks(page, "py"):
        compile(example, page.name, "exec")


def test_every_public_name_is_documented_and_no_other() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert set(rheostat.__all__) <= set(re.findall(r"`(?:rheostat\.)?(\w+)", page))
    assert set(re.findall(r"\brheostat\.(\w+)", page)) <= set(rheostat.__all__)


def documented_calls() -> list[tuple[str, str]]:
    """`name(arguments)` of the API page, for each public name."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    calls = re.findall(r"`(\w+)\((.*?)\)`", page)
    return [(name, arguments) for name, arguments in calls if name in rheostat.__all__]


@pytest.mark.parametrize(("name", "arguments"), documented_calls())
def test_documented_arguments_exist(name: str, arguments: str) -> None:
    try:
        known = inspect.signature(getattr(rheostat, name)).parameters
    except rheostat.MissingExtraError:
        pytest.skip("the train extra is not installed")
    for argument in arguments.split(", "):
        assert argument in ("*", "…") or argument.partition("=")[0] in known, f"{name} has no {argument}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_find_them(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        assert anchor in anchors(page.parent / target if target else page), f"{page.name} links to {target}#{anchor}"


PACKAGE = ROOT / "src" / "rheostat"
ROOMS = "|".join(sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"))
MODULE = rf"`((?:{ROOMS})/[\w/]+(?:\.\w+)?)"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_mentioned_in_text_exist(page: Path) -> None:
    for name in re.findall(MODULE, page.read_text(encoding="utf-8")):
        module = PACKAGE / name.partition(".")[0]
        found = (PACKAGE / name).exists() or module.is_dir() or module.with_suffix(".py").exists()
        assert found, f"{page.name} names {name}; there is no such module"


def shown_modules() -> set[str]:
    """Paths in the tree of docs/pipeline.md; a folder ends with a slash."""
    tree = next(block for block in blocks(ROOT / "docs" / "pipeline.md", "") if block.startswith("src/rheostat/\n"))
    shown, folder = set(), ""
    for indent, name in re.findall(r"^( +)(\S+)", tree, re.MULTILINE):
        folder = "" if len(indent) == 2 else folder
        shown.add(folder + name)
        folder = name if len(indent) == 2 and name.endswith("/") else folder
    return shown


def test_the_tree_of_modules_is_that_of_the_package() -> None:
    package, shown = ROOT / "src" / "rheostat", shown_modules()
    assert not [name for name in shown if not (package / name).exists()]
    listed = {name.partition("/")[0] for name in shown if not name.endswith("/")}  # folders shown file by file
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        as_one_line = {f"{folder.as_posix()}/" for folder in Path(name).parents if folder.as_posix() not in listed}
        assert name in shown or as_one_line & shown, f"docs/pipeline.md does not show {name}"


def test_the_table_of_the_readme_is_that_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    readme = runpy.run_path(str(ROOT / "benchmarks" / "readme.py"))
    committed = (ROOT / "README.md").read_text(encoding="utf-8")
    made = readme["replaced"](committed, readme["MARKS"], readme["section"]())
    assert made == committed, "run python benchmarks/readme.py"
    *positions, ngram = [
        [float(cell.strip(" %")) for cell in line.split("|")[2:-1] if cell.strip()]
        for line in made.partition(readme["MARKS"][0])[2].partition(readme["MARKS"][1])[0].splitlines()
        if re.match(r"\| (\d+%|5-gram)", line)
    ]
    assert len(positions) > 5, "the knob's positions and the n-gram are in one table"
    for megabytes, _, _, perplexity, _, recall, _ in positions:  # as the README says
        assert 5 * megabytes < ngram[0] and perplexity < ngram[2] and recall > ngram[4]
    assert positions[-1][6] == pytest.approx(ngram[5], abs=1)


def test_the_readme_says_what_reconstruction_measured() -> None:
    """The line and the number of lines that it is the best of are the report's own, from the same results files."""
    steps = tomllib.loads((ROOT / "reproduce.toml").read_text(encoding="utf-8"))["steps"]
    results = [ROOT / name for name in steps["report"]["optional"] if name.startswith("results/")]
    on = gather(read_all([path for path in results if path.exists()])).on("ptb")
    line, lines = best_line(on), whole_lines(on)
    best = line.at(0.6) if line else None
    assert on.full is not None and best is not None
    assert best.test_perplexity == min(one.test_perplexity for each in lines if (one := each.at(0.6)))
    readme = re.sub(r"\s+", " ", (ROOT / "README.md").read_text(encoding="utf-8"))
    rise = f"+{best.test_perplexity / on.full.test_perplexity - 1:.1%}".replace("%", " %")
    assert (
        f"{rise} perplexity at 60 % of the FLOPs, the best of {len(lines)} ways to choose filters and widths" in readme
    )
    assert chosen_among(on) in (ROOT / "docs" / "results" / "report.md").read_text(encoding="utf-8")


def test_the_longer_runs_are_those_of_their_results_files() -> None:
    """Every perplexity beside the name of a results file is in that file."""
    page = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
    cells = [cell for line in page.splitlines() if line.startswith("| ") for cell in line.split("|")]
    named = [(cell, name) for cell in cells for name in re.findall(r"`results/([\w-]+)\.json`", cell)]
    assert len(named) == 4
    for cell, name in named:
        stored = re.findall(r"\d+\.\d+", (ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
        for claimed in re.findall(r"(?:validation|then|test) (\d+\.(\d+))", cell):
            number, digits = claimed
            assert any(f"{float(one):.{len(digits)}f}" == number for one in stored), f"{number} in {name}"


def test_what_is_said_of_the_bundled_file_is_in_it() -> None:
    """Its counts, the cost of a cache beside it, and the words that it hides by mistake."""
    page = " ".join((ROOT / "docs" / "experiments.md").read_text(encoding="utf-8").split())
    with open_model(bundled.model_path()) as file:
        counts, shape, hidden = file.description.provenance["counts"], file.shape, file.hidden_words
    for tuned in (counts["tuned"][0], counts["tuned"][-1]):
        assert (
            f"from {tuned['perplexity_without']:.1f} to {tuned['perplexity_with']:.1f} at {tuned['cost']:.0%}".replace(
                "%", " %"
            )
            in page
        )
    assert "They are {:,} pairs, {:,} triples and {:,} runs of four words".format(*counts["ngrams"]) in page
    cache = 2 * rheostat.Cache().words * shape.hidden_sizes[-1]
    assert (
        f"**The cache adds {cache / shape.flops:.1%} to the FLOPs".replace("%", " %") in page and f"{cache:,}" in page
    )
    named = page.partition("twenty are words:")[2].partition(". Slang")[0]
    assert f"Of all {len(hidden)}, read by eye again" in page
    assert len(words := re.findall(r"\*(\w+)\*", named)) == 20 + 4 + 3 and set(words) <= set(hidden)


def test_the_commands_with_a_default_model_are_listed() -> None:
    page = (ROOT / "docs" / "default-model.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"These commands take it if you name no model: (.*?)\. So does", page, re.DOTALL)
    found = {
        name
        for name, command in COMMANDS.commands.items()  # type: ignore[attr-defined]
        if any(one.name == "model" and str(one.default) == bundled.DEFAULT_MODEL for one in command.params)
    }
    assert set(re.findall(r"`(\w+)`", listed)) == found


def test_traces_in_examples_exist() -> None:
    traces = [trace for _, command in commands() for trace in re.findall(r"--trace (\S+)", command)]
    assert traces and all((ROOT / trace).is_file() for trace in traces)


def test_files_in_the_readmes_commands_are_written_by_earlier_ones() -> None:
    """So that the block can be copied from top to bottom, and no command changes what a later one starts from."""
    block = next(one for one in blocks(ROOT / "README.md", "sh") if "rheostat train" in one)
    assert "TRAINED is runs/ptb/model.safetensors" in block and "train ptb-fast --data DIR -o runs/ptb " in block
    written = set[str]()
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        read = {word for word in words if word.endswith(".safetensors")}
        if "-o" in words:
            out = words[words.index("-o") + 1]
            assert out not in written, f"{line} overwrites {out}"
            read.discard(out)
        assert read <= written, f"{line} reads what no command wrote"
        written |= {out} if "-o" in words else set()


def test_the_readme_shows_the_knob_without_training_first() -> None:
    """A reader with a trained model needs two commands; those that train come later."""
    block = next(one for one in blocks(ROOT / "README.md", "sh") if "rheostat train" in one)
    names = re.findall(r"^rheostat (\w+)", block, re.MULTILINE)
    assert names[:2] == ["prune", "reconstruct"] and {"train", "recover"} <= set(names[2:])
