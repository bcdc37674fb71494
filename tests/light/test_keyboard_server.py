"""The keyboard's API: its answers, what it refuses, and that clients do not affect each other."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest import approx

pytest.importorskip("starlette", reason="the keyboard extra is not installed: pip install 'rheostat[keyboard]'")
pytest.importorskip("uvicorn", reason="the keyboard extra is not installed: pip install 'rheostat[keyboard]'")
pytest.importorskip("httpx2", reason="starlette's test client needs httpx2, of the dev extra")

import anyio
from starlette.testclient import TestClient

import rheostat
import rheostat.bundled
from models import make_ranking, make_vocabulary, make_weights, rewrite, write_file, write_tiny
from results_files import bench_row, full, ranked, row, write_bench, write_sweep
from rheostat.bundled import DEFAULT_MODEL, model_path
from rheostat.core.binding import CoreModel
from rheostat.errors import OperatingPointError, RheostatError, RheostatWarning
from rheostat.keyboard import page_tables
from rheostat.keyboard import server as server_module
from rheostat.keyboard.browser_model import browser_model
from rheostat.keyboard.facts import NGRAM, Energy, device_energy, estimated_energy, ngram_of
from rheostat.keyboard.positions import HISTORY_BYTES, Positions
from rheostat.keyboard.protection import CONTENT_SECURITY_POLICY, Hosts
from rheostat.keyboard.server import LARGEST_BODY, LONGEST_TEXT, Service, addresses, make_app, open_service, serve
from rheostat.keyboard.site import STATIC, page_files, write_page
from rheostat.model.contents import add_rankings, new_contents
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.names import HIDDEN
from rheostat.model.ordered import order_filters
from rheostat.model.precision import bytes_read
from rheostat.model.shape import ModelShape
from rheostat.model.writer import write_model
from rheostat.runtime.predictor import Predictor

HOST = "127.0.0.1:8017"
RESULTS = Path(__file__).parents[2] / "results"
SHAPE = ModelShape(60, 8, (24, 8), (2, 1))
ENERGY = Energy("estimate", "a millijoule per byte", lambda flops, size: float(size))
TEXT = "word3 word7 "


def write_small(path: Path, **changes: Any) -> Path:
    """A model with the words word2 … word59 and a ranking to cut by."""
    everything: dict[str, Any] = {
        "shape": SHAPE,
        "vocabulary": make_vocabulary(SHAPE.vocabulary_size),
        "weights": make_weights(SHAPE),
        "text": {"tokenizer": "words"},
        "casing": {"word5": "Word5"},
        "rankings": [make_ranking(SHAPE, 3, "random-3")],
        "default_ranking": "random-3",
    }
    write_file(path, **(everything | changes))
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("model") / "small.safetensors")


@pytest.fixture(scope="module")
def service(model: Path) -> Service:
    return open_service(model, energy=ENERGY)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(make_app(service), base_url=f"http://{HOST}") as client:
        yield client


def suggest(client: TestClient, **asked: Any) -> Any:
    answer = client.post("/api/suggest", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


# Suggestions


@pytest.mark.parametrize("knob", [1.0, 0.6, 0.35])
@pytest.mark.parametrize("text", ["", "wor", "word3 ", "word3 word7 word1", "Hello. W"])
def test_suggestions_are_those_of_a_predictor_at_that_knob(
    client: TestClient, model: Path, text: str, knob: float
) -> None:
    predictor = Predictor(model, knob, threads=1)
    found = suggest(client, text=text, knob=knob, k=4)
    wanted = predictor.complete(text, 4)
    assert [entry["word"] for entry in found["suggestions"]] == [suggestion.word for suggestion in wanted]
    assert [entry["replaces"] for entry in found["suggestions"]] == [suggestion.replaces for suggestion in wanted]
    assert [entry["probability"] for entry in found["suggestions"]] == approx([one.probability for one in wanted])
    assert (found["knob"], found["flops_fraction"]) == (knob, predictor.flops_fraction)


def test_an_answer_says_what_a_query_costs(client: TestClient, service: Service) -> None:
    answer = suggest(client, text=TEXT, knob=0.5)
    assert answer["flops"] == approx(answer["flops_fraction"] * SHAPE.flops)
    assert answer["query_ms"] > 0 and answer["answer_ms"] > 0
    assert answer["energy_mj"] == answer["flops"] // 2  # here, the bytes read: one per weight, two FLOPs each
    assert answer["point"] == "random-3-0.5"


def test_the_knob_never_spends_more_than_requested(client: TestClient) -> None:
    for percent in range(20, 101, 7):
        assert suggest(client, text="", knob=percent / 100)["flops_fraction"] <= percent / 100
    assert suggest(client, text="", knob=0.296)["knob"] == 0.29


def test_without_knob_and_k_the_whole_model_gives_three_words(client: TestClient) -> None:
    answer = suggest(client, text="")
    assert len(answer["suggestions"]) == 3 and answer["knob"] == 1.0 and answer["point"] == "full"


def test_clients_with_their_own_texts_and_knobs_do_not_see_each_other(client: TestClient, model: Path) -> None:
    asked = [(f"word{number} word{number + 9} ", [1.0, 0.7, 0.4][number % 3]) for number in range(2, 40)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda one: suggest(client, text=one[0], knob=one[1]), asked))
    predictors = {knob: Predictor(model, knob, threads=1) for knob in (1.0, 0.7, 0.4)}
    for (text, knob), answer in zip(asked, answers, strict=True):
        words = [suggestion.word for suggestion in predictors[knob].complete(text)]
        assert [entry["word"] for entry in answer["suggestions"]] == words


def test_excluded_words_are_not_suggested(model: Path) -> None:
    positions = Positions(model, hidden_words=iter(["WORD5"]))
    words = {suggestion.word for suggestion in positions.open(100).complete("", 60)}
    assert "Word6" in words and "Word5" not in words
    place = positions.file.vocabulary.index["word5"]
    kinds = Service(positions).facts["browser"]["kinds"]
    assert [kinds[i] for i in (0, 1, place, place + 1)] == ["0", "0", "0", "1"]


def test_a_limited_number_of_positions_is_kept_and_answers_stay_the_same(model: Path) -> None:
    positions = Positions(model, limit_bytes=5 * HISTORY_BYTES // 2)
    before = positions.open(80).complete(TEXT, 3)
    for percent in (60, 50, 40):
        positions.open(percent)
    assert positions.ready(80) is None and positions.ready(40) is not None
    assert positions.open(80).complete(TEXT, 3) == before


def test_positions_of_an_ordered_file_share_one_history_and_all_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "ordered"
    ranked = new_contents(SHAPE, make_vocabulary(SHAPE.vocabulary_size), make_weights(SHAPE), {"tokenizer": "words"})
    write_model(path, order_filters(add_rankings(ranked, [make_ranking(SHAPE, 3, "random-3")]), "random-3"))
    positions = Positions(path, limit_bytes=1)  # too little for two of them, if each took memory of its own
    percents = range(100, 28, -4)
    answers = {percent: positions.open(percent).complete(TEXT, 3) for percent in percents}
    assert len(percents) == 18 and all(positions.ready(percent) for percent in percents)
    alone = {percent: Predictor(path, percent / 100, threads=1).complete(TEXT, 3) for percent in percents}
    assert answers == alone
    assert {percent: positions.open(percent).complete(TEXT, 3) for percent in percents} == alone


def test_a_request_too_many_is_refused_at_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "MOST_WAITING", 0)
    answer = client.post("/api/suggest", json={"text": "a text that nobody has written " * 200, "knob": 0.9})
    assert (answer.status_code, answer.json()) == (
        503,
        {"error": "0 requests are waiting already; try again later"},
    )


def test_one_more_word_of_a_text_that_was_read_is_quick(model: Path) -> None:
    position, begun = Positions(model).open(100), "word3 " * 8
    position.query_ms = 1.5  # so that the whole text takes longer than a moment
    assert not position.is_quick(f"{begun}word7 ")
    position.remember(f"{begun}word7 ")
    assert position.is_quick(f"{begun}word7 wo") and position.is_quick(f"{begun}word7 word9 ")
    assert not position.is_quick(f"{begun}word7 word9 word11 ") and not position.is_quick(f"{begun}word4 wo")
    long = "word3 " * 300
    position.remember(long)
    assert not position.is_quick(long + "wo")


def test_a_text_that_is_read_in_a_moment_needs_no_thread(model: Path) -> None:
    """Threads wait for their turn: new clients would starve beside those that are answered directly."""
    position = Positions(model).open(100)
    position.query_ms = 0.2
    assert position.is_quick("see you at the gate tomorrow morn")
    assert not position.is_quick("word " * 60)


def test_a_model_that_cannot_be_cut_has_a_knob_at_one_end(tmp_path: Path) -> None:
    positions = Positions(write_small(tmp_path / "model", rankings=[], default_ranking=None))
    assert positions.smallest == 100
    with pytest.raises(OperatingPointError, match="from 1 to 1"):
        positions.percent_of(0.5)


def test_a_model_with_only_points_is_served_down_to_the_smallest(tmp_path: Path) -> None:
    positions = Positions(write_tiny(tmp_path / "model", rankings=[], default_ranking=None))
    smallest = min(point.flops_fraction for point in positions.file.description.points)
    assert positions.smallest / 100 == approx(smallest, abs=0.01) and positions.smallest / 100 >= smallest


# What is refused


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        ({}, 422, "there is no text"),
        ({"text": 3}, 422, "there is no text; found 3"),
        ({"text": "x" * (LONGEST_TEXT + 1)}, 413, "expected at most"),
        ({"text": "", "knob": "half"}, 422, "the knob is 'half'; expected a number"),
        ({"text": "", "knob": True}, 422, "the knob is True; expected a number"),
        ({"text": "", "knob": 0}, 422, "expected a share of"),
        ({"text": "", "knob": 1.5}, 422, "expected a share of"),
        ({"text": "", "knob": 1e400}, 422, "expected a share of"),
        ({"text": "", "knob": 10**401}, 422, "expected a share of"),
        ({"text": "", "k": 0}, 422, "k is 0; expected a whole number from 1 to 10"),
        ({"text": "", "k": 11}, 422, "k is 11; expected"),
        ({"text": "", "k": 1.5}, 422, "1 to 10"),
        ([], 400, "not a JSON object"),
    ],
)
def test_a_wrong_request_gets_one_line(client: TestClient, asked: Any, status: int, message: str) -> None:
    answer = client.post("/api/suggest", content=json.dumps(asked), headers={"content-type": "application/json"})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert message in error and "\n" not in error


def test_half_a_character_is_refused(client: TestClient) -> None:
    answer = client.post("/api/suggest", content=b'{"text": "\\ud800"}', headers={"content-type": "application/json"})
    assert answer.status_code == 422


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 5000])
def test_a_body_that_is_not_json_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/suggest", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400


def test_a_body_without_end_is_refused(client: TestClient) -> None:
    chunks = (b" " * 4096 for _ in range(LARGEST_BODY // 4096 + 2))
    answer = client.post("/api/suggest", content=chunks, headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_a_form_of_another_site_is_refused(client: TestClient) -> None:
    assert (
        client.post("/api/suggest", content=b'{"text": ""}', headers={"content-type": "text/plain"}).status_code == 415
    )


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8017", "127.0.0.1.evil.example", "a@127.0.0.1", "", "[::1"]
)
def test_an_unknown_host_name_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/model.json", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8017", "127.0.0.1:1", "[::1]:8017"])
def test_every_local_name_is_accepted(client: TestClient, host: str) -> None:
    assert client.get("/api/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", f"http://{HOST}.evil.example"]
)
def test_a_page_of_another_origin_is_refused(client: TestClient, origin: str) -> None:
    answer = client.post("/api/suggest", json={"text": ""}, headers={"origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_its_own_page_is_answered(client: TestClient) -> None:
    headers = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
    assert client.post("/api/suggest", json={"text": ""}, headers=headers).status_code == 200


def test_another_site_can_link_to_the_page_but_not_read_from_it(client: TestClient) -> None:
    assert client.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}).status_code == 200
    assert (
        client.get("/model.json", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}).status_code
        == 403
    )


def test_on_the_network_it_answers_to_addresses_and_allowed_names() -> None:
    hosts = Hosts("0.0.0.0", ["keyboard.example"])
    assert all(map(hosts.accepts, ["192.168.1.7:8017", "[fe80::1]:8017", "keyboard.example", "localhost"]))
    assert not any(map(hosts.accepts, ["evil.example", "192.168.1.7.evil.example"]))
    assert not Hosts("127.0.0.1").accepts("192.168.1.7")


@pytest.mark.parametrize("path", ["/", "/page.js", "/model.json", "/model.safetensors", "/api/health", "/absent"])
def test_every_answer_has_the_security_headers(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self' 'wasm-unsafe-eval'" in policy
    assert "http:" not in policy and "https:" not in policy and "unsafe-inline" not in policy
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-embedder-policy"] == "require-corp"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/%2e%2e/server.py", "/static/page.js", "/build.py", "/rheostat.wasm.digest"]
)
def test_no_other_file_can_be_read(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_nothing_that_was_typed_is_logged(client: TestClient, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    with caplog.at_level(logging.DEBUG):
        suggest(client, text="secretword")
        client.post("/api/suggest", json={"text": "secretword", "k": 99})
    printed = capfd.readouterr()
    assert "secretword" not in caplog.text + printed.out + printed.err


# The model


def test_the_model_is_described(client: TestClient) -> None:
    facts = client.get("/model.json").json()
    assert (facts["name"], facts["vocabulary_size"], facts["flops"]) == ("small", 60, SHAPE.flops)
    assert facts["shape"]["hidden_sizes"] == [24, 8] and facts["tokenizer"] == "words"
    assert 0 < facts["knob"]["smallest"] < 0.5 and facts["knob"]["largest"] == 1
    assert facts["curve"] is None and facts["points"] == []
    assert facts["energy"] == {"kind": "estimate", "note": "a millijoule per byte"}
    assert facts["server"] is True and facts["browser"]["bytes"] > 0


def test_the_curve_comes_from_the_model_file(tmp_path: Path) -> None:
    curve = [{"flops_fraction": 1.0, "perplexity": 60.0}, {"knob": 0.5, "perplexity": 70}, {"perplexity": 3}, "x"]
    service = open_service(write_small(tmp_path / "model", provenance={"curve": curve}))
    served = round(choose(service.positions.file, 0.5).cost, 6)  # what a row that names only a knob was measured at
    assert service.curve == [
        {"cost": served, "flops_fraction": served, "perplexity": 70},
        {"cost": 1.0, "flops_fraction": 1.0, "perplexity": 60.0},
    ]
    assert 0.45 < served < 0.5


def test_an_ngram_of_the_same_text_and_words_is_shown_beside_the_curve(tmp_path: Path, model: Path) -> None:
    measured = json.loads((RESULTS / "talk-ngram.json").read_text(encoding="utf-8"))
    ngram = open_service(DEFAULT_MODEL).facts["ngram"]
    assert (ngram["name"], ngram["size_bytes"]) == ("5-gram", measured["subject"]["size_bytes"])
    assert ngram["perplexity"] == measured["rows"][1]["perplexity"] and measured["rows"][1]["split"] == "test"
    assert ngram["latency_ms"] == measured["latency"]["latency_ms"]
    assert ngram["keystrokes_saved_share"] == measured["keystrokes"]["keystrokes_saved_share"]
    with open_model(model) as file, open_model(DEFAULT_MODEL) as bundled:
        ours, theirs = {"weights": file.weights_digest()}, {"weights": bundled.weights_digest()}
    same_text = write_sweep(tmp_path / "talk.json", [full(), ranked("random", 0.5, 80.0)], corpus="talk", **ours)
    curve = [{"flops_fraction": share, "perplexity": 60.0} for share in (1.0, 0.6)]
    other_words = write_small(tmp_path / "small", provenance={"curve": curve, "corpus": {"name": "talk"}})
    for other in (open_service(other_words), open_service(model), open_service(model, results=same_text)):
        assert other.facts["ngram"] is None
    other_text = write_sweep(tmp_path / "ptb.json", [full(), ranked("path", 0.5, 80.0)], corpus="ptb", **theirs)
    assert open_service(DEFAULT_MODEL, results=other_text).facts["ngram"] is None


def test_an_ngram_that_counted_another_text_is_not_shown(tmp_path: Path) -> None:
    """As for a model made from chitchat alone, whose corpus is called talk too."""
    shutil.copy(model_path(), tmp_path / "alone.safetensors")
    with open_model(tmp_path / "alone.safetensors") as file:
        assert ngram_of(file) is not None

    def shorten(description: dict[str, Any]) -> None:
        description["provenance"]["corpus"]["splits"]["train"]["tokens"] = 3_000_000

    rewrite(tmp_path / "alone.safetensors", description=shorten)
    with open_model(tmp_path / "alone.safetensors") as file:
        assert ngram_of(file) is None


def test_the_ngram_of_the_page_is_the_measured_one() -> None:
    assert NGRAM.read_bytes() == (RESULTS / "talk-ngram.json").read_bytes(), "copy the new one"


def test_the_page_knows_what_each_percentage_costs(client: TestClient, service: Service) -> None:
    facts = client.get("/model.json").json()
    costs = facts["knob"]["costs"]
    assert len(costs) == 101 - round(100 * facts["knob"]["smallest"]) and costs == sorted(costs) and costs[-1] == 1
    for percent in (100, 61, 60):
        answer = suggest(client, text="", knob=percent / 100)
        assert answer["cost"] == costs[percent - 101]
        here = next(one for one in facts["browser"]["positions"] if one["percent"] == percent)
        for name in ("cost", "flops", "bytes_read", "energy_mj"):
            assert here[name] == answer[name]
        assert answer["bytes_read"] == round(SHAPE.flops * answer["cost"] / 2)


def test_energy_comes_from_a_bench_of_the_device(tmp_path: Path, model: Path) -> None:
    size: Any = {"flops": SHAPE.flops}
    rows = [bench_row(1.0, 2.0, 4.0, widths=list(SHAPE.hidden_sizes)), bench_row(0.5, 1.2, 3.0)]
    measured = write_bench(tmp_path / "measured.json", rows, **size)
    silent = write_bench(tmp_path / "silent.json", [bench_row(0.9, 2.0), bench_row(0.5, 1.2)], **size)
    with open_model(model) as file:
        whole = bytes_read(file.shape.flops, "int8")
        energy = device_energy(measured, file, "int8")
        assert (energy.kind, energy.query_mj(0, whole)) == ("measured", 4.0) and "measured.json" in energy.note
        assert energy.query_mj(0, whole // 2) == pytest.approx(3.0, rel=0.01)
        assert energy.query_mj(0, 0) == pytest.approx(2.0)  # the intercept: no knob makes it cheaper
        for without in (device_energy(silent, file, "int8"), device_energy(None, file, "int8")):
            assert without.kind == "estimate" and without.note == estimated_energy().note
        with pytest.raises(RheostatError, match="has the kind 'sweep'"):
            device_energy(write_sweep(tmp_path / "sweep.json", [full()]), file, "int8")


def test_a_bench_of_another_model_is_refused(tmp_path: Path, model: Path) -> None:
    whole = bench_row(1.0, 2.0, 4.0, widths=list(SHAPE.hidden_sizes))
    others = [
        write_bench(tmp_path / "larger.json", [whole]),
        write_bench(tmp_path / "wider.json", [bench_row(1.0, 2.0, 4.0)], flops=SHAPE.flops),
        write_bench(tmp_path / "other-weights.json", [whole], flops=SHAPE.flops, weights="0123456789abcdef"),
    ]
    with open_model(model) as file:
        for path in others:
            with pytest.raises(RheostatError, match="holds results of another model, m; expected a bench of"):
                device_energy(path, file, "int8")
        same = write_bench(tmp_path / "same.json", [whole], flops=SHAPE.flops, weights=file.weights_digest())
        assert device_energy(same, file, "int8").kind == "measured"


def test_a_sweep_of_another_model_is_refused(tmp_path: Path, model: Path) -> None:
    path = write_sweep(tmp_path / "results.json", [full(), row("random-3", "random", 0.5, "test", 9.0)])
    with pytest.raises(RheostatError, match="holds results of another model, m; expected a sweep of"):
        open_service(model, results=path)


def test_the_curve_comes_from_a_sweep_of_the_model(tmp_path: Path, model: Path) -> None:
    with open_model(model) as file:
        digest = file.weights_digest()
    others = [row("another", "taylor", 0.5, "test", 1.0), row("random-3", "random", 0.5, "valid", 2.0)]
    for split in ("test", "text"):  # a sweep on a single file has rows of "text"
        whole = row("full", "", 1.0, split, 7.0, flops_fraction=1.0)
        ours = [row("random-3", "random", 0.501, split, 9.0), whole]
        path = write_sweep(tmp_path / "results.json", ours + others, weights=digest)
        curve = open_service(model, results=path).curve
        assert curve == [
            {"cost": 0.5, "flops_fraction": 0.5, "perplexity": 9.0},
            {"cost": 1.0, "flops_fraction": 1.0, "perplexity": 7.0},
        ]


def test_a_file_that_is_not_a_sweep_is_an_error(tmp_path: Path, model: Path) -> None:
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(RheostatError, match="expected a results file that rheostat wrote"):
        open_service(model, results=tmp_path / "results.json")


# The battery


def govern(client: TestClient, **asked: Any) -> Any:
    answer = client.post("/api/govern", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_battery_turns_the_knob_step_by_step(client: TestClient) -> None:
    previous, knobs = None, []
    for minute, level in enumerate([1.0, 0.45, 0.28, 0.1]):
        answer = govern(client, level=level, charging=False, time_s=120 * minute, previous=previous)
        previous = answer["previous"]
        knobs.append(answer["knob"])
    assert knobs == [1.0, 0.8, 0.6, 0.4] and answer["reason"] == "battery below 15%"
    charged = govern(client, level=0.1, charging=True, time_s=900, previous=previous)
    assert (charged["knob"], charged["reason"]) == (1.0, "charging")


def test_two_turns_are_never_closer_than_the_policy_says(client: TestClient) -> None:
    first = govern(client, level=0.45, charging=False, time_s=0)
    assert first["knob"] == 0.8
    assert govern(client, level=0.1, charging=False, time_s=5, previous=first["previous"])["knob"] == 0.8


def test_the_governor_remembers_nothing_between_requests(client: TestClient) -> None:
    asked = {"level": 0.2, "charging": False, "time_s": 7}
    assert govern(client, **asked) == govern(client, **asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"level": "low"},
        {"level": 2},
        {"level": 10**401},
        {"level": 0.5, "time_s": -(10**401)},
        {"level": 0.5, "previous": {"knob": 10**401}},
        {"level": 0.5, "charging": "yes"},
        {"level": 0.5, "time_s": "now"},
        {"level": 0.5, "previous": 3},
        {"level": 0.5, "previous": {"knob": "x"}},
        {"level": 0.5, "previous": {"knob": 1, "unknown": 1}},
    ],
)
def test_an_impossible_battery_gets_one_line(client: TestClient, asked: Any) -> None:
    answer = client.post("/api/govern", json=asked)
    assert answer.status_code == 422 and "\n" not in answer.json()["error"]


# The model for the browser


def test_the_browser_gets_a_file_that_gives_the_same_words(client: TestClient, model: Path) -> None:
    facts = client.get("/model.json").json()
    core = CoreModel(client.get(f"/{facts['browser']['model']}").content)
    for percent in (100, 60, 35):
        predictor = Predictor(model, percent / 100, threads=1)
        (position,) = (one for one in facts["browser"]["positions"] if one["percent"] == percent)
        near = core.position_near(percent / 100)
        assert near.widths == predictor.point.widths == tuple(position["widths"])
        assert position["flops_fraction"] == predictor.flops_fraction
        ids = [core.find_word(word) for word in ("<eos>", "word3", "word7")]
        found = core.log_probabilities(core.predict(near, core.steps(near, core.start(), ids)))
        assert (found == predictor.log_probabilities("word3 word7")).all()


def test_an_ordered_file_is_sent_as_it_is() -> None:
    with rheostat.open_model() as file:
        assert browser_model(file, "int8").contents.tobytes() == file.path.read_bytes()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_model_is_sent_in_pieces(service: Service, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr("rheostat.keyboard.server.PIECE_BYTES", 1000)
    contents = service.browser.contents.tobytes()
    messages = messages_of(service, "/model.safetensors", method)
    pieces = [message["body"] for message in messages[1:]]
    assert len(pieces) > len(contents) // 1000 and max(map(len, pieces)) == 1000
    assert b"".join(pieces) == contents
    headers = dict(messages[0]["headers"])
    assert headers[b"content-length"] == str(len(contents)).encode()
    assert headers[b"content-type"] == b"application/octet-stream"
    assert headers[b"etag"] == f'"{service.browser.address}"'.encode() and headers[b"cache-control"] == b"no-cache"


def messages_of(service: Service, path: str, method: str) -> list[dict[str, Any]]:
    """What the application sends to a client that takes everything."""
    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def receive() -> dict[str, Any]:
        await anyio.sleep_forever()
        return {}

    headers = [(b"host", HOST.encode())]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
    anyio.run(make_app(service), scope, receive, send)
    return messages


def test_a_model_is_fetched_once(client: TestClient) -> None:
    address = f"/{client.get('/model.json').json()['browser']['model']}"
    first = client.get(address)
    again = client.get(address, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


CUT_SHORT = """
import os, sys
from starlette.testclient import TestClient
from rheostat.keyboard.server import make_app, open_service
client = TestClient(make_app(open_service(sys.argv[1])), base_url="http://127.0.0.1:8017")
address = "/" + client.get("/model.json").json()["browser"]["model"]
assert client.get(address).content == open(sys.argv[1], "rb").read()
os.truncate(sys.argv[1], 4096)
answer = client.get(address)
print(answer.status_code, answer.json()["error"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be changed there")
def test_a_file_that_is_cut_short_is_an_answer_and_does_not_end_the_server(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(rheostat.bundled.model_path(), path)
    ended = subprocess.run([sys.executable, "-c", CUT_SHORT, path], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("422 ") and "was written to while it was in use" in ended.stdout


CUT_WHILE_SENT = """
import os, sys
import anyio
from rheostat.keyboard.server import make_app, open_service
app = make_app(open_service(sys.argv[1]))
sent = []
async def send(message):
    sent.append(message)
    if len(sent) == 3:
        os.truncate(sys.argv[1], 4096)
async def receive():
    await anyio.sleep_forever()
headers = [(b"host", b"127.0.0.1:8017")]
scope = dict(type="http", method="GET", path="/model.safetensors", query_string=b"", headers=headers)
try:
    anyio.run(app, scope, receive, send)
except Exception as error:
    print(len(sent), error.__cause__ or error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be changed there")
def test_a_file_that_is_cut_short_while_it_is_sent_ends_the_answer_only(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(rheostat.bundled.model_path(), path)
    ended = subprocess.run([sys.executable, "-c", CUT_WHILE_SENT, path], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("3 ") and "was written to while it was in use" in ended.stdout


def test_what_a_browser_cannot_run_is_left_to_the_server(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the onnx extra is not installed")
    model = write_tiny(tmp_path / "lstm.safetensors", "lstm")
    service = open_service(model)
    with TestClient(make_app(service), base_url=f"http://{HOST}") as client:
        assert client.get("/model.json").json()["browser"] is None
        assert client.get("/model.safetensors").status_code == 404
    with pytest.raises(RheostatError, match="a browser cannot run"):
        write_page(tmp_path / "site", model)


def test_times_are_measured_at_several_positions(client: TestClient) -> None:
    found = client.post("/api/times", json={"percents": [100, 60]}).json()["times_ms"]
    assert found.keys() == {"100", "60"} and all(ms > 0 for ms in found.values())
    for percents in ([], [0], [101], "60", [60.5], [True], list(range(50, 63))):
        answer = client.post("/api/times", json={"percents": percents})
        assert answer.status_code == 422 and "\n" not in answer.json()["error"]


def test_a_position_below_all_that_was_measured_says_so(tmp_path: Path) -> None:
    curve = [{"flops_fraction": share, "perplexity": 60.0} for share in (1.0, 0.6)]
    service = open_service(write_small(tmp_path / "model", provenance={"curve": curve}))
    with TestClient(make_app(service), base_url=f"http://{HOST}") as client:
        assert suggest(client, text="", knob=0.65)["warning"] is None
        with pytest.warns(RheostatWarning, match="measured down to"):
            answer = suggest(client, text="", knob=0.4)
        assert "measured down to 60.0% only" in answer["warning"]
        positions = client.get("/model.json").json()["browser"]["positions"]
        warned = [one["percent"] for one in positions if one["warning"]]
        assert warned and max(warned) < 60 and warned == list(range(positions[0]["percent"], max(warned) + 1))


# Slips


def test_the_server_corrects_slips_as_the_predictor_does(client: TestClient, model: Path) -> None:
    taps = [[1.1, 0.1], None, [3.0, 0.0], [2.2, 1.1], [0.0, -0.2]]
    with Predictor(model, threads=1) as predictor:
        for text in ("word1", "the wird1", "word2 eord", "word3 ", "worx4 "):
            for options in ({}, {"layout": "dvorak"}, {"taps": taps} if text == "word1" else {"layout": "qwertz"}):
                found = suggest(client, text=text, k=5, **options)["suggestions"]
                assert found == [one._asdict() for one in predictor.complete(text, 5, **options)]
                answer = client.post("/api/correct", json={"text": text, "k": 5, **options})
                assert answer.json() == {
                    "suggestions": [one._asdict() for one in predictor.correct(text, 5, **options)]
                }
    kinds = {one["kind"] for text in ("word1", "word11") for one in suggest(client, text=text, k=10)["suggestions"]}
    assert kinds == {"completion", "correction", "typed"}


@pytest.mark.parametrize("path", ["/api/suggest", "/api/correct"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"taps": 3},
        {"taps": [[0, 0]]},
        {"taps": ["a"] * 4},
        {"taps": [[1, "x"]] * 4},
        {"taps": [[180, 560]] * 4},
        {"layout": 3},
        {"layout": "x"},
    ],
)
def test_taps_and_layouts_are_checked(client: TestClient, path: str, wrong: dict[str, Any]) -> None:
    answer = client.post(path, json={"text": "word", **wrong})
    assert answer.status_code == 422 and "expected" in answer.json()["error"] and "\n" not in answer.json()["error"]


# Taught words


def test_a_taught_word_is_suggested_listed_and_forgotten(model: Path, tmp_path: Path) -> None:
    service = open_service(model, user_words=tmp_path / "words.json")
    with TestClient(make_app(service), base_url=f"http://{HOST}") as client:
        assert suggest(client, text="Rheostat ")["unknown_word"] == "Rheostat"
        assert suggest(client, text="Rheostat")["unknown_word"] is None  # it may not be finished
        assert suggest(client, text="word3 ")["unknown_word"] is None
        learned = client.post("/api/learn", json={"word": "Rheostat"}).json()["words"]
        assert (
            [(one["word"], one["count"]) for one in learned]
            == [("Rheostat", 1)]
            == [(one["word"], one["count"]) for one in client.get("/api/words").json()["words"]]
        )
        found = suggest(client, text="Rhe")["suggestions"]
        assert ("Rheostat", "user") in [(one["word"], one["source"]) for one in found]
        assert suggest(client, text="Rheostat ")["unknown_word"] is None
        assert client.post("/api/forget", json={"word": "Rheostat"}).json() == {"words": []}
        assert "user" not in [one["source"] for one in suggest(client, text="Rhe")["suggestions"]]
        for word in ("", "two words", 3, None):
            assert client.post("/api/learn", json={"word": word}).status_code == 422


# The page as a site


def test_the_site_has_all_files_and_stays_small(tmp_path: Path) -> None:
    written = write_page(tmp_path / "site")
    names = {path.name for path in (tmp_path / "site").iterdir()}
    assert names == {*page_files(), "model.json", "model.safetensors"} and written.files == len(names)
    assert written.size_bytes == sum(path.stat().st_size for path in (tmp_path / "site").iterdir()) < 11e6
    assert json.loads((tmp_path / "site" / "model.json").read_text(encoding="utf-8"))["server"] is False
    assert write_page(tmp_path / "site") == written  # again, in the same place


def test_neither_the_site_nor_the_server_suggests_a_word_that_the_file_hides(tmp_path: Path, model: Path) -> None:
    with open_model(model) as file:
        contents = file.contents()
    hidden = np.frombuffer(b"word7\nword9\n", np.uint8)
    write_model(tmp_path / "model", replace(contents, words={**contents.words, HIDDEN: hidden}))
    write_page(tmp_path / "site", tmp_path / "model", hidden_words=["word11"])
    facts = json.loads((tmp_path / "site" / "model.json").read_text(encoding="utf-8"))
    served = open_service(tmp_path / "model", hidden_words=["word11"]).facts
    for kinds in (facts["browser"]["kinds"], served["browser"]["kinds"]):
        assert [place for place in range(2, 60) if kinds[place] == "0"] == [7, 9, 11]


def test_the_site_replaces_nothing_of_others(tmp_path: Path, model: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("mine")
    for name, message in (("file", "is a file"), ("folder", "holds other files")):
        with pytest.raises(RheostatError, match=message):
            write_page(tmp_path / name, model)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["mine.txt"]


@pytest.mark.skipif(os.name != "posix", reason="no permissions")
def test_the_site_respects_a_read_only_file(tmp_path: Path, model: Path) -> None:
    write_page(tmp_path / "site", model)
    facts = tmp_path / "site" / "model.json"
    facts.chmod(0o444)
    before = facts.stat()
    with pytest.raises(RheostatError, match=r"model\.json is a read-only file"):
        write_page(tmp_path / "site", model)
    assert facts.stat() == before


def test_the_page_forbids_what_the_server_forbids() -> None:
    """A page without a server has no headers of ours: the same policy stands in the page."""
    (found,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', (STATIC / "index.html").read_text())
    assert found == CONTENT_SECURITY_POLICY.removesuffix("; frame-ancestors 'none'")  # which only headers may say


# The page


def test_the_page_and_everything_it_references_are_served(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    names = set(re.findall(r'(?:src|href)="([^"]+)"', page.text))
    names |= set(page_files())
    for script in STATIC.glob("*.js"):
        names |= set(re.findall(r'from "\./([^"]+)"', script.read_text(encoding="utf-8")))
    for name in names:
        assert client.get(f"/{name}").status_code == 200, name


def test_the_service_worker_keeps_every_file_of_the_page(client: TestClient) -> None:
    worker = (STATIC / "service-worker.js").read_text(encoding="utf-8")
    kept = set(re.findall(r'"([^"]+)"', worker.partition("[")[2].partition("]")[0]))
    assert kept == {*page_files(), "./", "model.json"} - {"index.html", "service-worker.js"}


def test_the_tables_of_the_page_are_up_to_date() -> None:
    remedy = "run: python -m rheostat.keyboard.page_tables"
    assert page_tables.PATH.read_text(encoding="utf-8") == page_tables.script(), remedy


def test_the_scripts_repeat_no_table() -> None:
    """No other script defines a constant that tables.js exports."""
    for script in STATIC.glob("*.js"):
        defined = set(re.findall(r"^(?:export )?const ([A-Z_]+) =", script.read_text(encoding="utf-8"), re.MULTILINE))
        assert script == page_tables.PATH or not defined & page_tables.tables().keys(), script.name


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        if path.is_file():
            addresses = set(re.findall(r"https?://[^\"'\s)]+", path.read_text(encoding="utf-8")))
            assert addresses <= {"http://www.w3.org/2000/svg"}, path.name


def test_scripts_have_the_type_that_browsers_insist_on(client: TestClient) -> None:
    assert client.get("/page.js").headers["content-type"].startswith("text/javascript")


def test_a_port_that_is_taken_is_one_line(service: Service) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, pytest.raises(RheostatError, match="expected a free port: choose another"):
        serve(service, port=taken.getsockname()[1])


def test_on_the_network_the_address_for_other_devices_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheostat.keyboard.server.network_address", lambda: "192.168.1.7")
    assert addresses("0.0.0.0") == ["127.0.0.1", "192.168.1.7"]
    assert addresses("127.0.0.1") == ["127.0.0.1"] and addresses("::1") == ["[::1]"]
    monkeypatch.setattr("rheostat.keyboard.server.network_address", lambda: None)
    assert addresses("0.0.0.0") == ["127.0.0.1"]
