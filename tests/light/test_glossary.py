"""One word per concept, one meaning per word, and plain English everywhere."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "rheostat"
GLOSSARY = ROOT / "docs" / "glossary.md"

# Names of functions and constants that once meant several things: the modules that define them now.
DEFINITIONS = {"END": [], "evaluate": ["cli/evaluate.py", "measure/evaluation.py"]}

# Phrases that make a reader read twice, and what to write instead.
QUAINT = {
    r"(go|goes|gone|going|went) on (with|where)": "resume, continue",
    r"lived again": "replayed",
    r"(?-i:\bone an? (?!time\b)[a-z])": "one per …",
    r"so many": "how many, that many, n …",
    r"business of|('s|s'|whose|own) business": "is handled by …",
    r"\banew\b": "again, from the start, regenerated",
    r"the way of the data": "the data flow",
    r"what (came|comes) of it": "the result",
    r"without a word": "silently",
    r"before (one's|your|our) eyes": "visibly",
    r"\b(un)?learnt\b": "learned",
    r"\bspoilt\b": "spoiled, damaged",
    r"made (if absent|if it is not there|if missing)": "created if missing",
    r"where there is one": "if any",
    r"of its making|in the making of": "how it was made",
    r"\bone (word|row|spelling|entry|file|line|byte|run|window) a [a-z]": "one per …",
    r"(take|takes|taking|took) turns": "are interleaved",
    r"said to be (one|none|so)\b": "is labelled, is an error",
    r"\bof those that\b": "the … that",
    r"\bof the \w+ of the \w+ of\b": "fewer genitives",
    r"\ba (word|row|line|key|value|name) an? [a-z]": "one word per …",
    r"\bknows no (?!thing)": "knows nothing of …",
    r"\b(is|are) (known|said) by\b": "… knows, … says",
    r"\bcomplains\b": "raises",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bof no use\b": "useless",
    r"\bis there twice\b|\bfor the second time\b": "twice, repeated",
    r"\bnothing else than\b": "nothing but",
    r"\bto be called before\b": "call this before",
    r"\ball or nothing\b": "atomically",
    r"\bas good as it was\b": "still valid",
    r"\bas far as it is known\b": "as far as known",
    r"\bspoke against\b": "contradicted",
    r"\bmore ways than one\b": "several ways",
    r"\bwhether or not\b": "whether",
    r"\bthat it may (have|be)\b": "optional …",
    r"\bwhere (it|they) (is|are) not there\b": "if missing",
    r"\b(does|do) not tell\b": "does not report",
    r"\bputs? in front\b": "put first",
    r"\blets? go of\b": "close, release",
    r"\bfor ever\b": "forever",
    r"\bof one's own\b": "your own, personal",
    r"\bha(s|ve) no say\b": "has no effect",
    r"\b(words?|letters?|rows) behind\b": "after",
    r"\bmultiplied with\b": "multiplied by",
    r"\bdearer\b": "costs more",
    r"\bwhat became of\b": "the outcome of",
    r"\bis no (file|part of)\b": "is not a …",
    r"\bshown no more\b": "no longer shown",
}
# Words with one meaning in the glossary that once had another: where the word may be used.
ONE_MEANING = {
    "layout": (
        *("docs/glossary.md", "docs/slips.md", "docs/keyboard.md", "docs/embedding.md", "CHANGELOG.md"),
        *(
            "src/rheostat/words",
            "src/rheostat/runtime",
            "src/rheostat/measure",
            "src/rheostat/keyboard",
            "src/rheostat/cli",
        ),
        *("src/rheostat/core", "tests/browser", "tests/light/test_keyboard_server.py", "tests/light/test_slips.py"),
    )
}
READ = {".py", ".md", ".js", ".html", ".css", ".jinja", ".toml", ".sh", ".c", ".h"}
# What is in plain English already: files, or folders with everything in them.
CLEAN: tuple[str, ...] = (
    "CHANGELOG.md",
    "Makefile",
    "README.md",
    "benchmarks",
    "docs",
    "models",
    "reproduce.toml",
    "scripts",
    "src/rheostat",
    "tests",
)


def definitions() -> list[tuple[list[str], str]]:
    """The terms and the meaning of every row of the glossary's tables."""
    rows = re.findall(r"^\| (\*\*.+?) \| (.+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return [([term.strip("* `") for term in terms.split(",")], meaning) for terms, meaning in rows]


def definitions_by_name() -> dict[str, list[str]]:
    """The modules that define each class, function and constant at top level."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for name in names_of(node):
                found[name].append(module)
    return found


def names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    inner = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return [part.id for part in inner if isinstance(part, ast.Name)]


def class_names() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(PACKAGE).as_posix())
    return found


def quaint_phrases(text: str) -> list[str]:
    """The quaint phrases of a text; a phrase can be broken over two lines, or be the name of a function."""
    flowing = re.sub(r"\s*\n[\s#*/|]*", " ", text).replace("_", " ")
    return [
        f"{found[0]!r}: write {instead!r}"
        for phrase, instead in QUAINT.items()
        for found in re.finditer(phrase, flowing, re.IGNORECASE)
    ]


def pages(*places: str) -> list[Path]:
    """The files with prose in these places."""
    found = []
    for place in map(ROOT.joinpath, places):
        assert place.exists(), f"{place} is listed and does not exist"
        found += [place] if place.is_file() else [path for path in place.rglob("*") if path.suffix in READ]
    return sorted(set(found) - {Path(__file__)})  # this file contains the phrases


def test_the_glossary_defines_every_term_once() -> None:
    terms = [term.casefold() for names, _ in definitions() for term in names]
    assert len(terms) > 30
    assert not {term for term in terms if terms.count(term) > 1}


def test_a_term_has_one_meaning() -> None:
    assert not {
        names[0]
        for names, meaning in definitions()
        if re.search(r"^of [^:|]+: .*; of ", meaning) or re.search(r"^an? [^,;|]+ \(.*\), or an? ", meaning)
    }


def test_a_class_name_means_one_class() -> None:
    assert not {name: modules for name, modules in class_names().items() if len(modules) > 1}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_name_is_defined_where_it_belongs(name: str) -> None:
    assert definitions_by_name()[name] == DEFINITIONS[name]


@pytest.mark.parametrize("word", ONE_MEANING)
def test_a_word_is_used_only_where_it_has_its_meaning(word: str) -> None:
    """matplotlib's own argument does not count."""
    allowed = set(pages(*(place for place in ONE_MEANING[word] if (ROOT / place).exists())))
    elsewhere = [
        page.relative_to(ROOT).as_posix()
        for page in set(pages(*CLEAN)) - allowed
        if re.search(rf"(?<![A-Za-z]){word}s?\b(?!=\"constrained\")", page.read_text(encoding="utf-8"), re.IGNORECASE)
    ]
    assert not elsewhere


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Resumes the run; one per physical core; learned words.", 0),
        ("one at a time, one and all, as many as there are", 0),
        ("0: one a physical core", 1),
        ("a run that can be gone\n    # on with", 1),
        ("def test_a_run_is_gone_on_with()", 1),
        ("Words are the predictor's business. It is made anew, without a word.", 3),
        ("One word per line; a row of words; knows nothing of files; recommended.", 0),
        ("a word a line; knows no files; the size of the words of the rows of a text", 3),
    ],
)
def test_quaint_phrases_are_found(text: str, count: int) -> None:
    assert len(quaint_phrases(text)) == count


@pytest.mark.parametrize("page", pages(*CLEAN), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_plain_english(page: Path) -> None:
    assert not quaint_phrases(page.read_text(encoding="utf-8"))
