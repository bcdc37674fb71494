"""Slips, taps, the memory and the cache on the page, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from keyboard_process import FileServer, Server, shown_words

from rheostat.bundled import model_path
from rheostat.runtime.engine import Cache
from rheostat.runtime.predictor import Predictor
from rheostat.words.hidden_words import read_hidden_words
from rheostat.words.memory import Memory
from rheostat.words.slips import find_key_layout

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Route

OpenPage = Callable[..., "Page"]

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, of the dev extra")
expect = sync_api.expect
expect.set_options(timeout=30_000)

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
STORED = """() => new Promise((resolve) => {
    const request = indexedDB.open("rheostat", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("memory");
    request.onsuccess = () => {
        const read = request.result.transaction("memory").objectStore("memory").get("phrases");
        read.onsuccess = () => {
            request.result.close();
            resolve((read.result?.phrases ?? []).map(({ words }) => words));
        };
    };
})"""


@pytest.fixture(scope="module")
def bundled_server() -> Iterator[Server]:
    server = Server(model_path())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def predictor() -> Predictor:
    return Predictor(threads=1)


def text_of(page: Page) -> Locator:
    return page.locator("#text")


def on_the_server(open_page: OpenPage, server: Server) -> Page:
    """The page, ready to type, with the server's engine and no worker between them."""
    page = open_page(server.address, service_workers="block")
    page.get_by_text("On the server", exact=True).click()
    text_of(page).focus()
    return page


def settle(page: Page) -> None:
    """Wait until the suggestions belong to the text."""
    expect(page.locator("#suggestions button:enabled").first).to_be_visible()
    page.wait_for_timeout(250)


def expect_suggestions(page: Page, wanted: list[str]) -> None:
    expect(page.locator("#suggestions button:enabled")).to_have_text(wanted)


# Corrections


@pytest.mark.parametrize("engine", ["browser", "server"])
def test_a_slip_is_corrected_when_its_word_ends_and_comes_back_by_undo(
    bundled_server: Server, open_page: OpenPage, predictor: Predictor, engine: str
) -> None:
    assert predictor.correct("what are you dping")[0].advice == "correct"
    page = open_page(bundled_server.address)
    if engine == "server":
        page.get_by_text("On the server", exact=True).click()
        text_of(page).focus()
    page.keyboard.type("what are you dping")
    expect_suggestions(page, shown_words(predictor.complete("what are you dping")))
    kinds = [button.get_attribute("data-kind") for button in page.locator("#suggestions button").all()]
    assert kinds[:2] == [suggestion.kind for suggestion in predictor.complete("what are you dping")][:2]
    assert {"correction", "typed"} <= set(kinds)
    page.keyboard.type(" ")
    expect(text_of(page)).to_have_value("what are you doing ")
    expect(page.locator("#undo")).to_have_text("↶ dping")
    expect(page.get_by_role("status")).to_contain_text("Corrected to doing")
    page.keyboard.press("Control+z")
    expect(text_of(page)).to_have_value("what are you dping ")
    page.keyboard.press("Backspace")
    page.keyboard.type(". ")  # it was meant, so it is not corrected again
    settle(page)
    expect(text_of(page)).to_have_value("what are you dping. ")


def test_what_was_typed_can_be_tapped_while_the_next_word_is_written(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.keyboard.type("what are you dping ")
    expect(text_of(page)).to_have_value("what are you doing ")
    page.keyboard.type("tomor")
    expect(page.locator("#undo")).to_have_text("↶ dping")
    page.locator("#undo").click()
    expect(text_of(page)).to_have_value("what are you dping tomor")
    expect(text_of(page)).to_be_focused()
    assert page.evaluate("document.getElementById('text').selectionStart") == len("what are you dping tomor")
    page.keyboard.type("row at ")
    expect(page.locator("#undo")).to_be_hidden()
    expect(text_of(page)).to_have_value("what are you dping tomorrow at ")


def test_two_slips_in_a_row_are_both_corrected_when_the_answers_come_late(
    bundled_server: Server, open_page: OpenPage
) -> None:
    page = on_the_server(open_page, bundled_server)
    late: list[Route] = []
    page.route("**/api/correct", lambda route: late.append(route))
    page.keyboard.type("what aer you diong ")
    page.wait_for_timeout(200)
    for route in late:
        route.continue_()
    expect(text_of(page)).to_have_value("what aer you doing ")  # "aer" was too long ago
    page.unroute_all(behavior="ignoreErrors")
    text_of(page).fill("")
    late.clear()
    page.route("**/api/correct", lambda route: late.append(route))
    page.keyboard.type("what are ypu diong ")
    page.wait_for_timeout(200)
    for route in late:
        route.continue_()
    expect(text_of(page)).to_have_value("what are you doing ")
    page.unroute_all(behavior="ignoreErrors")


def test_a_sign_and_a_new_line_end_a_word_too(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    for sign in (".", "?", "\n"):
        text_of(page).fill("")
        page.keyboard.type("what are you dping")
        page.keyboard.press("Enter") if sign == "\n" else page.keyboard.type(sign)
        expect(text_of(page)).to_have_value(f"what are you doing{sign}")


def test_the_typed_word_can_be_chosen(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.keyboard.type("what are you dping")
    typed = page.locator('#suggestions button[data-kind="typed"]')
    expect(typed).to_have_text("dping")
    expect(typed).to_have_attribute("aria-label", "dping, as typed")
    typed.click()
    page.keyboard.type("now ")
    settle(page)
    expect(text_of(page)).to_have_value("what are you dping now ")


def test_corrections_can_be_switched_off_and_stay_off(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.locator("#writing summary").click()
    page.get_by_label("Correct slips when a word ends").uncheck()
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.keyboard.type("what are you dping ")
    settle(page)
    expect(text_of(page)).to_have_value("what are you dping ")


def test_a_taught_word_is_never_corrected(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.locator("#writing summary").click()
    page.get_by_label("Correct slips when a word ends").uncheck()
    text_of(page).focus()
    page.keyboard.type("what are you dping ")
    page.locator("#learn").click()
    page.get_by_label("Correct slips when a word ends").check()
    text_of(page).fill("")
    page.keyboard.type("what are you dping ")
    settle(page)
    expect(text_of(page)).to_have_value("what are you dping ")


def test_a_correction_that_comes_late_does_not_disturb_what_was_typed_since(
    bundled_server: Server, open_page: OpenPage
) -> None:
    page = on_the_server(open_page, bundled_server)
    late: list[Route] = []

    def delay(route: Route) -> None:
        if json.loads(route.request.post_data or "{}")["text"].endswith("dping"):
            late.append(route)
        else:
            route.continue_()

    page.route("**/api/correct", delay)
    page.keyboard.type("what are you dping ")
    page.keyboard.type("tod")
    page.wait_for_timeout(200)
    late[0].continue_()
    expect(text_of(page)).to_have_value("what are you doing tod")
    page.keyboard.type("ay")
    expect(text_of(page)).to_have_value("what are you doing today")
    text_of(page).fill("")
    page.keyboard.type("what are you dping ")
    page.keyboard.press("Backspace")
    page.keyboard.type("s")
    page.wait_for_timeout(200)
    late[1].continue_()
    settle(page)
    expect(text_of(page)).to_have_value("what are you dpings")
    page.unroute_all(behavior="ignoreErrors")


def release(page: Page, late: list[Route]) -> None:
    """Let the corrections that were held back arrive."""
    page.wait_for_timeout(200)
    for route in late:
        route.continue_()


def test_a_late_correction_leaves_the_space_of_a_suggestion_where_it_is(
    bundled_server: Server, open_page: OpenPage, predictor: Predictor
) -> None:
    assert predictor.correct("see you tommorrow")[0].advice == "correct"
    page = on_the_server(open_page, bundled_server)
    late: list[Route] = []
    page.route("**/api/correct", lambda route: late.append(route))
    page.keyboard.type("see you tommorrow ")
    next_word = shown_words(predictor.complete("see you tommorrow "))[0]
    expect(page.locator("#suggestions button").first).to_have_text(next_word)
    page.keyboard.press("Alt+Digit1")
    expect(text_of(page)).to_have_value(f"see you tommorrow {next_word} ")
    release(page, late)
    expect(text_of(page)).to_have_value(f"see you tomorrow {next_word} ")
    page.keyboard.type(".")
    expect(text_of(page)).to_have_value(f"see you tomorrow {next_word}. ")
    page.unroute_all(behavior="ignoreErrors")


def test_a_late_correction_leaves_shift_as_it_was_tapped(bundled_server: Server, open_page: OpenPage) -> None:
    page = on_the_server(open_page, bundled_server)
    late: list[Route] = []
    page.route("**/api/correct", lambda route: late.append(route))
    page.keyboard.type("what are you dping ")
    shift = page.locator('#keys [data-key="⇧"]')
    shift.click()
    release(page, late)
    expect(text_of(page)).to_have_value("what are you doing ")
    expect(shift).to_have_attribute("aria-pressed", "true")
    page.locator('#keys [data-key="t"]').click()
    expect(shift).to_have_attribute("aria-pressed", "false")
    page.locator('#keys [data-key="o"]').click()
    expect(text_of(page)).to_have_value("what are you doing To")
    page.unroute_all(behavior="ignoreErrors")


# Taps


@pytest.mark.parametrize("how", ["finger", "mouse"])
def test_a_tap_between_keys_counts_for_the_nearest(site: FileServer, open_page: OpenPage, how: str) -> None:
    page = open_page(site.address, **PHONE)
    settle(page)
    tap = page.touchscreen.tap if how == "finger" else page.mouse.click
    typed = ""
    # Beside a key and below it, in pixels from its border: gaps, corners, and the ends of a row.
    for key, beside, below in (
        ("p", -1.0, 3.0), ("t", 1.0, 0.0), ("g", 0.0, 3.0), ("a", -12.0, 0.0), ("l", 12.0, 0.0), ("m", 1.0, -3.0)
    ):  # fmt: skip
        box = page.locator(f'#keys [data-key="{key}"]').bounding_box()
        assert box
        x = box["x"] + (beside if beside < 0 else box["width"] + beside if beside else box["width"] / 2)
        y = box["y"] + (below if below < 0 else box["height"] + below if below else box["height"] / 2)
        assert page.evaluate("([x, y]) => document.elementFromPoint(x, y).tagName", [x, y]) == "DIV"
        tap(x, y)
        typed += key if typed else key.upper()
        expect(text_of(page)).to_have_value(typed)
    expect(text_of(page)).to_be_focused()


def test_a_key_that_the_pointer_leaves_types_nothing(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.keyboard.type("so")
    page.locator('#keys [data-key="p"]').hover()
    page.mouse.down()
    page.locator('#keys [data-key="o"]').hover()
    page.mouse.up()
    page.locator('#keys [data-key="x"]').click()
    expect(text_of(page)).to_have_value("sox")


@pytest.mark.parametrize("size", [(390, 844), (320, 640), (667, 375), (1280, 860)])
def test_the_keys_lie_where_the_layout_says(site: FileServer, open_page: OpenPage, size: tuple[int, int]) -> None:
    page = open_page(site.address, viewport={"width": size[0], "height": size[1]})
    centres = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".key")].map((key) => {
            const { left, top, width, height } = key.getBoundingClientRect();
            return [key.dataset.key, [left + width / 2, top + height / 2]];
        }))"""
    )
    across, along = centres["w"][0] - centres["q"][0], centres["a"][1] - centres["q"][1]
    for letter, x, y in find_key_layout("qwerty").keys:
        found = (centres[letter][0] - centres["q"][0]) / across, (centres[letter][1] - centres["q"][1]) / along
        assert found == pytest.approx((x, y), abs=0.05), letter


@pytest.mark.parametrize("engine", ["browser", "server"])
def test_the_page_passes_where_the_finger_came_down(
    bundled_server: Server, open_page: OpenPage, predictor: Predictor, engine: str
) -> None:
    page = open_page(bundled_server.address, service_workers="block", **PHONE)
    seen: list[Any] = []
    page.on(
        "request",
        lambda request: seen.append(json.loads(request.post_data or "{}")) if "/api/suggest" in request.url else None,
    )
    if engine == "server":
        page.get_by_text("On the server", exact=True).click()
        text_of(page).focus()
    text_of(page).fill("see you at ")
    layout = find_key_layout("qwerty")
    taps: list[Any] = []
    pitch: dict[str, float] = page.evaluate(
        """() => { const at = (key) => document.querySelector(`[data-key="${key}"]`).getBoundingClientRect();
            return { x: at("w").left - at("q").left, y: at("a").top - at("q").top }; }"""
    )
    for letter, beside, below in (("t", 0.4, 0.0), ("j", -0.4, 0.0), ("w", 0.4, 0.0)):  # "the", nearly
        box = page.locator(f'#keys [data-key="{letter}"]').bounding_box()
        assert box
        x, y = box["x"] + box["width"] / 2 + beside * pitch["x"], box["y"] + box["height"] / 2 + below * pitch["y"]
        page.touchscreen.tap(x, y)
        centre = layout.centre(letter)
        assert centre
        taps.append((centre[0] + beside, centre[1] + below))
    expect(text_of(page)).to_have_value("see you at tjw")
    wanted = predictor.complete("see you at tjw", taps=taps)
    assert wanted != predictor.complete("see you at tjw")
    expect_suggestions(page, shown_words(wanted))
    if engine == "server":
        found = seen[-1]["taps"]
        assert [place for tap in found for place in tap] == pytest.approx([p for tap in taps for p in tap], abs=0.03)
    page.locator('#keys [data-key="⌫"]').tap()
    page.keyboard.type("e")  # a letter of another keyboard has no place
    expect(text_of(page)).to_have_value("see you at tje")
    # Taps on the page are whole pixels, so a word that is only just probable enough may be shown here and not there.
    for place, word in enumerate(shown_words(predictor.complete("see you at tje", taps=[*taps[:2], None]))[:2]):
        expect(page.locator("#suggestions button:enabled").nth(place)).to_have_text(word)
    if engine == "server":
        assert seen[-1]["text"] == "see you at tje"
        expect_suggestions(page, shown_words(predictor.complete("see you at tje", taps=seen[-1]["taps"])))


# The memory


def turn_memory_on(page: Page) -> None:
    page.locator("#memory summary").click()
    page.get_by_label("Learn from what I write").check()
    text_of(page).focus()


def listed(page: Page) -> list[str]:
    return [item.removesuffix("×") for item in page.locator("#memory-list li").all_inner_texts()]


def test_nothing_is_learned_unless_it_is_switched_on(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    expect(page.get_by_label("Learn from what I write")).not_to_be_checked()
    page.keyboard.type("see you at the zumsteg tomorrow then ")
    page.wait_for_timeout(1000)
    assert page.evaluate(STORED) == []
    turn_memory_on(page)
    page.keyboard.press("Control+End")
    page.keyboard.type("or at home if you like ")
    expect(page.locator("#memory-list")).to_contain_text("home")
    page.wait_for_timeout(1000)
    stored = page.evaluate(STORED)
    assert "home" in stored and not any("tomorrow" in phrase or "zumsteg" in phrase for phrase in stored)


def test_what_was_written_is_learned_kept_used_and_forgotten(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    turn_memory_on(page)
    for _ in range(3):
        page.keyboard.type("we go to the Zumsteg tonight my friend ")
        page.keyboard.press("Control+Enter")
        expect(text_of(page)).to_have_value("")
    expect(page.locator("#memory-list")).to_contain_text("zumsteg")
    page.wait_for_timeout(1200)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    expect(page.locator("#memory-count")).not_to_have_text("0")
    page.keyboard.type("we go to the ")
    expect(page.locator("#suggestions button").first).to_have_text("zumsteg")
    page.locator("#memory summary").click()
    page.get_by_role("button", name="Forget zumsteg").click()
    expect(page.locator("#memory summary")).to_be_focused()
    expect(page.locator("#memory-list")).not_to_contain_text("zumsteg")
    expect(page.locator("#suggestions button").first).not_to_have_text("zumsteg")
    expect(page.locator("#memory-list")).to_contain_text("tonight")
    page.get_by_role("button", name="Forget the last hour").click()
    expect(page.locator("#memory-list li")).to_have_count(0)
    text_of(page).focus()
    page.keyboard.type("harbour is nice and so are you ")
    expect(page.locator("#memory-list")).to_contain_text("nice")
    page.get_by_role("button", name="Forget everything").click()
    expect(page.locator("#memory-list li")).to_have_count(0)
    assert page.evaluate(STORED) == []


def test_what_was_learned_is_exported_as_a_file_that_python_reads(
    site: FileServer, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(site.address)
    turn_memory_on(page)
    page.keyboard.type("I like the winter more than summer ")
    expect(page.locator("#memory-list")).to_contain_text("winter more")  # nothing later has settled
    with page.expect_download() as download:
        page.get_by_role("button", name="Export to a file").click()
    assert download.value.suggested_filename == "rheostat-memory.json"
    download.value.save_as(tmp_path / "memory.json")
    memory = Memory(tmp_path / "memory.json")
    assert memory.count("the", "winter") == pytest.approx(1.0)
    wanted = {f"{phrase.replace('<eos>', '¶')}{count:.0f}" for phrase, count in memory.phrases()}
    assert "winter1" in wanted and wanted == {item.replace("\n", "") for item in listed(page)}


def test_only_words_left_unchanged_are_learned(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    turn_memory_on(page)
    page.keyboard.type("I like the summer more than ")
    expect(page.locator("#memory-list")).to_contain_text("summer")
    for _ in "summer more than ":
        page.keyboard.press("Backspace")
    page.keyboard.type("winter more than ")
    expect(page.locator("#memory-list")).to_contain_text("winter")
    assert not any("summer" in phrase for phrase in listed(page))
    page.keyboard.type("ths ")  # a slip, if it stands
    page.keyboard.press("Control+z")
    page.keyboard.type("and so on it goes ")
    page.wait_for_timeout(500)
    assert "ths" not in [item.split("\n")[0] for item in listed(page)]


@pytest.mark.parametrize("how", ["all at once", "forwards", "a word inside"])
def test_what_is_deleted_is_unlearned_however_it_is_deleted(site: FileServer, open_page: OpenPage, how: str) -> None:
    page = open_page(site.address)
    turn_memory_on(page)
    page.keyboard.type("I like the summer more than any winter ")
    expect(page.locator("#memory-list")).to_contain_text("summer more")
    expect(page.locator("#figure-saved-note")).to_have_text("0 of 39")
    if how == "all at once":
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
    else:
        page.keyboard.press("Control+Home")
        if how == "a word inside":
            for _ in "I like the ":
                page.keyboard.press("ArrowRight")
        for _ in "summer " if how == "a word inside" else "I like the summer more than any winter ":
            page.keyboard.press("Delete")
    left = "I like the more than any winter " if how == "a word inside" else ""
    expect(text_of(page)).to_have_value(left)
    expect(page.locator("#figure-saved-note")).to_have_text("0 of 32" if left else "so far")
    expect(page.locator("#memory-list")).not_to_contain_text("summer")
    if not left:
        expect(page.locator("#memory-list li")).to_have_count(0)


def test_an_accepted_suggestion_is_learned_at_once(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    turn_memory_on(page)
    page.keyboard.type("tomor")
    expect(page.locator("#suggestions button").first).to_have_text("Tomorrow")
    page.keyboard.press("Alt+Digit1")
    expect(page.locator("#memory-list")).to_contain_text("tomorrow")


def test_nothing_is_learned_from_a_private_text(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    turn_memory_on(page)
    page.get_by_label("This text is private").check()
    text_of(page).focus()
    page.keyboard.type("my number is secret and so is this one here ")
    page.wait_for_timeout(500)
    expect(page.locator("#memory-note")).to_contain_text("private")
    expect(page.locator("#memory-list li")).to_have_count(0)
    page.get_by_label("This text is private").uncheck()  # what was private stays so
    text_of(page).focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("but now it is fine to learn ")
    expect(page.locator("#memory-list")).to_contain_text("fine")
    page.wait_for_timeout(1000)
    stored = page.evaluate(STORED)
    assert "fine" in stored and not any(
        word in phrase.split() for phrase in stored for word in ("secret", "here", "number")
    )


def test_the_memory_goes_nowhere(bundled_server: Server, open_page: OpenPage) -> None:
    page = open_page(bundled_server.address, service_workers="block")
    turn_memory_on(page)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.keyboard.type("we go to the harbour tonight my friend ")
    expect(page.locator("#memory-list")).to_contain_text("tonight")
    assert [url for url in sent if "/api/" in url] == []
    page.get_by_text("On the server", exact=True).click()
    expect(page.locator("#memory")).to_be_hidden()


def test_two_tabs_share_one_memory(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    turn_memory_on(page)
    other = page.context.new_page()
    other.goto(site.address)
    other.wait_for_selector("html[data-ready]")
    expect(other.get_by_label("Learn from what I write")).to_be_checked()
    for tab, word in ((page, "winter"), (other, "summer")):
        tab.locator("#text").focus()
        tab.keyboard.type(f"I like {word} more than ")
        expect(tab.locator("#memory-list")).to_contain_text(word)
        tab.wait_for_timeout(1000)
    assert {"winter", "summer", "i like winter", "i like summer"} <= set(page.evaluate(STORED))


def test_an_accepted_word_inside_a_text_must_first_stay_unchanged(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    turn_memory_on(page)
    page.keyboard.type("well  friend")
    for _ in " friend":
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("tomor")
    expect(page.locator("#suggestions button").first).to_have_text("tomorrow")
    page.keyboard.press("Alt+Digit1")
    expect(text_of(page)).to_have_value("well tomorrow friend")
    page.wait_for_timeout(300)
    assert "friend" not in [item.split("\n")[0] for item in listed(page)]


# The cache, and hidden words


def test_the_cache_is_an_option_and_answers_as_in_python(
    site: FileServer, open_page: OpenPage, predictor: Predictor
) -> None:
    page = open_page(site.address)
    text = (
        "My dragon is blue. The dragon likes cheese. I saw a dragon with cheese and the dragon was happy. I like the "
    )
    text_of(page).fill(text)
    expect_suggestions(page, shown_words(predictor.complete(text)))
    page.locator("#writing summary").click()
    page.get_by_label("Words of this text become more likely").check()
    with Predictor(threads=1, cache=Cache()) as cached:
        for typed in (text, f"{text}d", f"{text}ch", f"{text}yo"):
            text_of(page).fill(typed)
            expect_suggestions(page, shown_words(cached.complete(typed)))
        assert shown_words(cached.complete(f"{text}d")) != shown_words(predictor.complete(f"{text}d"))


def test_hidden_words_are_never_suggested(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    hidden = read_hidden_words()
    for word in sorted(hidden)[::9]:
        for typed in (word[:2], word[:-1], f"you {word[:-1]}"):
            text_of(page).fill(typed)
            page.wait_for_timeout(60)
            shown = page.locator('#suggestions button:enabled:not([data-kind="typed"])').all_inner_texts()
            assert not {one.lower() for one in shown} & hidden
