"""`import rheostat` shows everything, and wrong arguments are errors in one line."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rheostat
from models import GOLDEN, write_words
from rheostat import errors
from rheostat.errors import MissingExtraError, RheostatError, UserWordsError
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

WORDS = (UNKNOWN, END_OF_LINE, "the", "game", "gate", "garden", "boat", "sees")
SHAPE = ModelShape(len(WORDS), 4, (8, 4), (2, 1))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_words(tmp_path_factory.mktemp("api") / "model.safetensors", WORDS, SHAPE)


def resolve(name: str) -> Any:
    try:
        return getattr(rheostat, name)
    except MissingExtraError as error:  # no torch here
        return error


# Names


@pytest.mark.parametrize("name", rheostat.__all__)
def test_every_public_name_resolves_or_names_its_extra(name: str) -> None:
    value = resolve(name)
    if isinstance(value, MissingExtraError):
        assert f"pip install 'rheostat[{value.extra}]'" in str(value)
    else:
        assert name == "__version__" or value.__doc__, f"{name} has no docstring"


def test_all_and_dir_are_complete() -> None:
    assert rheostat.__all__ == sorted(rheostat.__all__)
    assert set(rheostat.__all__) <= set(dir(rheostat))
    own = [value for value in vars(errors).values() if inspect.isclass(value) and value.__module__ == errors.__name__]
    tree = {value.__name__ for value in own if issubclass(value, Exception)}
    assert tree <= set(rheostat.__all__)


def test_a_star_import_gives_every_name() -> None:
    names: dict[str, object] = {}
    script = "from rheostat import *"
    try:
        exec(script, names)
    except MissingExtraError as error:
        assert error.extra == "train"
    else:
        assert set(rheostat.__all__) <= set(names)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'loda'"):
        rheostat.loda  # noqa: B018


def test_an_extra_that_cannot_be_loaded_is_not_called_missing() -> None:
    missing = str(MissingExtraError("report", "Drawing", ModuleNotFoundError("No module named 'matplotlib'")))
    assert missing == "Drawing needs the 'report' extra: pip install 'rheostat[report]'"
    broken = str(MissingExtraError("report", "Drawing", ImportError("libpng.so:\n cannot open")))
    assert "installed but cannot be loaded (libpng.so: cannot open): pip install --force-reinstall" in broken


def test_without_torch_the_light_names_still_resolve() -> None:
    script = """
import sys
for name in ("torch", "lightning_fabric", "numba", "tensorboard"):
    sys.modules[name] = None
import rheostat
missing = set()
for name in rheostat.__all__:
    try:
        getattr(rheostat, name)
    except rheostat.MissingExtraError as error:
        assert f"pip install 'rheostat[{error.extra}]'" in str(error), error
        missing |= {name} if error.extra == "train" else set()
print(sorted(missing))
"""
    answer = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert set(ast.literal_eval(answer.stdout)) == {
        "criterion",
        "learn_point",
        "rank",
        "recover",
        "resplit",
        "resume",
        "train",
        "write_untrained",
    }


def test_load_is_a_function_with_the_arguments_of_a_predictor(model: Path) -> None:
    assert inspect.isfunction(rheostat.load)
    ours, theirs = inspect.signature(rheostat.load), inspect.signature(rheostat.Predictor)
    assert ours.parameters == theirs.parameters
    assert isinstance(rheostat.load(model), rheostat.Predictor)


# Closing


def test_a_predictor_can_be_used_with_with(model: Path) -> None:
    with rheostat.load(model, 0.8) as predictor:
        assert predictor.suggest("the")
        assert "model.safetensors" in repr(predictor) and "at 80.0% of the cost" in repr(predictor)
    assert "closed" in repr(predictor)


CALLS: dict[str, Callable[[rheostat.Predictor], object]] = {
    "suggest": lambda predictor: predictor.suggest("the"),
    "complete": lambda predictor: predictor.complete("the g"),
    "log_probabilities": lambda predictor: predictor.log_probabilities("the"),
    "executed_flops": lambda predictor: predictor.executed_flops("the"),
    "learn": lambda predictor: predictor.learn("Gastropod"),
    "forget": lambda predictor: predictor.forget("Gastropod"),
    "turn": lambda predictor: predictor.turn(0.8),
    "at": lambda predictor: predictor.at(0.8),
    "query_ms": lambda predictor: predictor.query_ms(),
    "point": lambda predictor: predictor.point,
    "flops_fraction": lambda predictor: predictor.flops_fraction,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_closed_predictor_says_so_in_one_line(model: Path, name: str) -> None:
    predictor = rheostat.load(model)
    predictor.close()
    predictor.close()  # a second time does nothing
    with pytest.raises(RheostatError, match=r"this predictor is closed; .* load the model again") as caught:
        CALLS[name](predictor)
    assert "\n" not in str(caught.value)


def test_closing_one_of_two_predictors_leaves_the_other_open(model: Path) -> None:
    first = rheostat.load(model)
    second = first.at(0.8)
    first.close()
    second.turn(0.9)
    assert second.suggest("the") == rheostat.load(model, 0.9).suggest("the")
    second.close()
    with pytest.raises(RheostatError, match="closed"):
        second.suggest("the")


def test_a_turn_in_the_background_does_not_reopen_a_closed_predictor(model: Path) -> None:
    predictor = rheostat.load(model)
    predictor.turn(0.7, wait=False)
    predictor.close()
    with pytest.raises(RheostatError, match="closed"):
        predictor.suggest("the")


# Log-probabilities


def test_log_probabilities_of_a_text_are_those_of_its_words(model: Path) -> None:
    predictor = rheostat.load(model, precision="fp32")
    found = predictor.log_probabilities("The boat")
    assert (found == predictor.log_probabilities_after([END_OF_LINE, "the", "boat"])).all()
    assert found.shape == (len(WORDS),) and abs(float(sum(2.718281828459045**found)) - 1) < 1e-3


# Wrong types


NAN, INFINITE = float("nan"), float("inf")
WRONG: dict[str, Callable[[rheostat.Predictor], object]] = {
    'turn("abc")': lambda predictor: predictor.turn("abc"),  # type: ignore[arg-type]
    "turn(nan)": lambda predictor: predictor.turn(NAN),
    "turn(inf)": lambda predictor: predictor.turn(INFINITE),
    "turn(True)": lambda predictor: predictor.turn(True),
    "turn(0)": lambda predictor: predictor.turn(0),
    "turn(a huge number)": lambda predictor: predictor.turn(10**400),
    "turn(latency_ms=a huge number)": lambda predictor: predictor.turn(latency_ms=10**400),
    "turn()": lambda predictor: predictor.turn(),
    "turn(point=5)": lambda predictor: predictor.turn(point=5),  # type: ignore[arg-type]
    'turn(latency_ms="1")': lambda predictor: predictor.turn(latency_ms="1"),  # type: ignore[arg-type]
    "turn(latency_ms=-1)": lambda predictor: predictor.turn(latency_ms=-1),
    "turn(latency_ms=nan)": lambda predictor: predictor.turn(latency_ms=NAN),
    'at("abc")': lambda predictor: predictor.at("abc"),  # type: ignore[arg-type]
    "at()": lambda predictor: predictor.at(),
    "suggest(None)": lambda predictor: predictor.suggest(None),  # type: ignore[arg-type]
    "suggest(prefix=None)": lambda predictor: predictor.suggest("the", prefix=None),  # type: ignore[arg-type]
    'suggest(k="3")': lambda predictor: predictor.suggest("the", k="3"),  # type: ignore[arg-type]
    "suggest(k=2.5)": lambda predictor: predictor.suggest("the", k=2.5),  # type: ignore[arg-type]
    "complete(bytes)": lambda predictor: predictor.complete(b"x"),  # type: ignore[arg-type]
    "log_probabilities(list)": lambda predictor: predictor.log_probabilities(["x"]),  # type: ignore[arg-type]
    "log_probabilities_after(str)": lambda predictor: predictor.log_probabilities_after("the boat"),
    "learn(None)": lambda predictor: predictor.learn(None),  # type: ignore[arg-type]
    "forget(5)": lambda predictor: predictor.forget(5),  # type: ignore[arg-type]
    'query_ms("9")': lambda predictor: predictor.query_ms("9"),  # type: ignore[arg-type]
    "observe(None)": lambda predictor: rheostat.Governor(predictor).observe(None),  # type: ignore[arg-type]
    'Policy("x")': lambda predictor: rheostat.Policy(charging_knob="x"),  # type: ignore[arg-type]
    "Policy(True)": lambda predictor: rheostat.Policy(dwell_s=True),
    "Policy(7)": lambda predictor: rheostat.Policy(smallest_knob=7),
    "Policy(when=[])": lambda predictor: rheostat.Policy(when=["x"]),  # type: ignore[arg-type]
    "Governor(policy=5)": lambda predictor: rheostat.Governor(predictor, 5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_argument_is_an_error_in_one_line(model: Path, call: str) -> None:
    predictor = rheostat.load(model)
    before = predictor.suggest("the")
    with pytest.raises(RheostatError) as caught:
        WRONG[call](predictor)
    assert "expected" in str(caught.value) and "\n" not in str(caught.value)
    assert predictor.knob == 1.0 and predictor.suggest("the") == before


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": 5},
        {"model": None},
        {"knob": "0.5"},
        {"knob": None},
        {"point": 5},
        {"precision": 8},
        {"precision": "float32"},
        {"threads": "2"},
        {"threads": -1},
        {"context": 1},
        {"context": 2.5},
        {"cache_bytes": "1"},
        {"user_words": 5},
        {"hidden_words": "game"},
        {"hidden_words": b"game"},
        {"hidden_words": 5},
        {"hidden_words": ["game", 5]},
    ],
    ids=str,
)
def test_load_refuses_wrong_arguments_in_one_line(model: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(RheostatError) as caught:
        rheostat.load(**{"model": model, **arguments})
    assert "expected" in str(caught.value) and "\n" not in str(caught.value)


def test_a_string_of_hidden_words_is_an_error_with_both_remedies(model: Path) -> None:
    with pytest.raises(UserWordsError, match=r'Path\("changes.txt"\).*or \["word", …\]'):
        rheostat.load(model, hidden_words="bother")


def test_open_model_refuses_anything_but_a_path() -> None:
    with pytest.raises(RheostatError, match=r"name_or_path is 5 .*; expected a str or a path"):
        rheostat.open_model(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("knob", ["0.8", None, True, [0.8], NAN, 10**400, 0, 7], ids=lambda knob: f"{knob!r:.10}")
@pytest.mark.parametrize("call", ["evaluate", "export", "sweep", "bench"])
def test_every_call_refuses_a_wrong_knob_in_one_line(model: Path, tmp_path: Path, call: str, knob: Any) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the boat\n")
    calls: dict[str, Callable[[], object]] = {
        "evaluate": lambda: rheostat.evaluate(model, data=text, knob=knob),
        "export": lambda: rheostat.export(model, tmp_path / "out", knob=knob),
        "sweep": lambda: rheostat.sweep(model, data=text, knobs=[knob], out=tmp_path / "sweep.json"),
        "bench": lambda: rheostat.bench(model, knobs=[knob], queries=2, meter="none", memory=False),
    }
    with pytest.raises(RheostatError, match=r"expected a .*share of the cost") as caught:
        calls[call]()
    assert "\n" not in str(caught.value) and not (tmp_path / "sweep.json").exists()


@pytest.mark.parametrize("call", ["knobs", "criteria", "splits", "bench"])
def test_one_value_where_several_are_expected_is_an_error_in_one_line(model: Path, tmp_path: Path, call: str) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the boat\n")
    out = tmp_path / "sweep.json"
    calls: dict[str, Callable[[], object]] = {
        "knobs": lambda: rheostat.sweep(model, data=text, knobs=0.8, out=out),  # type: ignore[arg-type]
        "criteria": lambda: rheostat.sweep(model, data=text, criteria="random", out=out),
        "splits": lambda: rheostat.sweep(model, data=text, splits="test", out=out),
        "bench": lambda: rheostat.bench(model, knobs=0.8, meter="none"),  # type: ignore[arg-type]
    }
    with pytest.raises(RheostatError, match=r"expected a list.*: \["):
        calls[call]()


def test_paths_may_be_strings(model: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", str(tmp_path / "sweep.json")
    text.write_text("the boat\n")
    assert rheostat.sweep(str(model), data=str(text), knobs=[], out=out).path == Path(out)
    bench = rheostat.bench(model, knobs=[1.0], queries=2, warm_up=0, meter="none", memory=False, out=out + "2")
    assert Path(out + "2").is_file() and len(bench.rows) == 1
    day = tmp_path / "day.csv"
    day.write_text("time_s,level,charging,queries\n0,1,0,1\n60,0.5,0,1\n")
    assert rheostat.replay_day(str(day)).results.behaviours
    with pytest.raises(RheostatError, match=r"results is .*expected a list.*: \["):
        rheostat.write_report(out, out=str(tmp_path / "report"))


def test_a_number_of_queries_that_no_memory_holds_is_refused_before_the_model_is_opened(tmp_path: Path) -> None:
    with pytest.raises(RheostatError, match=r"queries is 1000.*; expected a whole number from 2 to 10,000,000"):
        rheostat.bench(tmp_path / "absent", queries=10**26, meter="none")


# Packing


def test_pack_is_one_call_and_returns_the_summary(tmp_path: Path) -> None:
    golden, out = GOLDEN / "golden-fp32.safetensors", tmp_path / "packed.safetensors"
    summary = rheostat.pack(golden, out, precision="int8", default_ranking="random-0", points=["plain"])
    with rheostat.open_model(out) as file:
        assert summary == rheostat.summarize(file)
    assert summary["precision"] == "int8" and summary["default_ranking"] == "random-0"
    assert [point["name"] for point in summary["points"]] == ["plain"]
    assert rheostat.pack(golden, out, points=[])["points"] == []
    assert rheostat.pack(golden, out, drop_points=["plain"])["points"] != []
    rheostat.pack(golden, out)
    assert out.read_bytes() == golden.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"points": "plain"}, "points is 'plain' .*expected a list.*: .'plain'."),
        ({"drop_rankings": "norm"}, "drop_rankings is 'norm' .*expected a list"),
        ({"points": ["plan"]}, "found no point 'plan'; the model has: .*plain"),
        ({"precision": "float32"}, "precision 'float32'.*one of fp32, fp16, int8"),
    ],
)
def test_pack_refuses_wrong_arguments_and_writes_nothing(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(RheostatError, match=message):
        rheostat.pack(GOLDEN / "golden-fp32.safetensors", tmp_path / "out.safetensors", **arguments)
    assert not list(tmp_path.iterdir())
