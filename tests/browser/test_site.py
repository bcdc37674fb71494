"""The page as a site from a plain file server: everything runs in the browser, on line and off."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from keyboard_process import FileServer, Serve, shown_words, write_small

from rheostat.keyboard.site import write_page
from rheostat.runtime.predictor import Predictor

if TYPE_CHECKING:
    from playwright.sync_api import Page

OpenPage = Callable[..., "Page"]

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, of the dev extra")
expect = sync_api.expect
expect.set_options(timeout=30_000)

DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 860}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SIDEWAYS: dict[str, Any] = {"viewport": {"width": 667, "height": 375}, "has_touch": True, "is_mobile": True}


@pytest.fixture
def predictor() -> Predictor:
    return Predictor(threads=1)


def expect_suggestions(page: Page, wanted: list[str]) -> None:
    expect(page.locator("#suggestions button:enabled")).to_have_text(wanted)


def words(predictor: Predictor, text: str) -> list[str]:
    return shown_words(predictor.complete(text))


def turn_to(page: Page, percent: int) -> None:
    """Turn the knob with keys, from wherever it is."""
    page.locator("#knob").focus()
    page.keyboard.press("End")
    for _ in range((100 - percent) // 10):
        page.keyboard.press("PageDown")
    for _ in range((100 - percent) % 10):
        page.keyboard.press("ArrowDown")
    expect(page.locator("#knob")).to_have_attribute("aria-valuenow", str(percent))


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_without_a_network_everything_still_works(
    tmp_path: Path, open_page: OpenPage, serve: Serve, predictor: Predictor, device: dict[str, Any], look: str
) -> None:
    write_page(tmp_path / "site")
    server = serve(FileServer(tmp_path / "site"))
    page = open_page(server.address, may_fail=True, color_scheme=look, **device)
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    server.stop()
    page.context.set_offline(True)
    page.reload()
    page.wait_for_selector("html[data-ready]")
    for share in (1.0, 0.4):
        predictor.turn(share)
        turn_to(page, round(100 * share))
        for text in ("", "how are y", "See you on Mon"):
            page.locator("#text").fill(text)
            expect_suggestions(page, words(predictor, text))
    expect(page.locator("#quality-label")).to_contain_text("perplexity")
    expect(page.locator("#figure-time")).to_contain_text("ms")
    for figure, unit in (("cost", "%"), ("flops", "M"), ("bytes", "MB")):
        expect(page.locator(f"#figure-{figure}")).to_contain_text(unit)
    page.locator("#memory summary").click()
    page.get_by_label("Learn from what I write").check()
    page.locator("#text").fill("")
    page.keyboard.type("I like winter. What are you dping ")
    expect(page.locator("#text")).to_have_value("I like winter. What are you doing ")
    expect(page.locator("#memory-list")).to_contain_text("winter")
    drag_down(page)
    expect(page.locator("#reason")).to_contain_text("Battery below")
    assert page.evaluate("document.documentElement.scrollWidth") <= device["viewport"]["width"]


def test_a_new_version_of_the_site_replaces_the_old_one(
    tmp_path: Path, model: Path, open_page: OpenPage, serve: Serve
) -> None:
    folder = tmp_path / "site"
    write_page(folder)
    server = serve(FileServer(folder))
    page = open_page(server.address)
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    expect(page.locator("#model-name")).to_contain_text("chat")
    write_page(folder, model)
    page.reload()
    expect(page.locator("#model-name")).to_contain_text("small")
    page.locator("#text").fill("how are y")
    expect_suggestions(page, words(Predictor(model, threads=1), "how are y"))
    models = """caches.keys().then(([name]) => caches.open(name)).then((cache) => cache.keys())
        .then((kept) => kept.map(({ url }) => url).filter((url) => url.includes("?v=")).length)"""
    for _ in range(100):
        if page.evaluate(models) == 1:
            break
        page.wait_for_timeout(100)
    assert page.evaluate(models) == 1


def drag_down(page: Page) -> None:
    page.locator("#battery").focus()
    for _ in range(8):
        page.keyboard.press("PageDown")


def test_turning_the_knob_fetches_nothing(site: FileServer, open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page(site.address, service_workers="block")
    expect(page.locator("#suggestions button:enabled")).to_have_count(3)
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    page.locator("#text").fill("I will be ")
    for percent in (73, 20, 55):
        turn_to(page, percent)
        predictor.turn(percent / 100)
        expect_suggestions(page, words(predictor, "I will be "))
    assert fetched == []


def test_there_is_no_choice_of_engine_without_a_server(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    expect(page.locator("#engines")).to_be_hidden()
    expect(page.locator("footer")).to_contain_text("stays in this browser")


# Time saved and quality lost


def test_no_figure_is_shown_where_none_was_measured(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    lost, label, warning = page.locator("#quality-lost"), page.locator("#quality-label"), page.locator("#warning")
    turn_to(page, 40)  # the path has no position at 40 % exactly: what is served there was measured
    expect(label).to_have_text(re.compile(r"perplexity \d+\.\d$"))
    expect(lost).to_contain_text("%")
    turn_to(page, 39)  # a smaller position, which was not
    expect(label).to_contain_text("between those of 30")
    turn_to(page, 85)
    expect(lost).to_have_text("–")
    expect(label).to_contain_text("between those of 80")
    expect(warning).to_be_hidden()
    turn_to(page, 12)
    expect(lost).to_have_text("–")
    expect(label).to_contain_text("between those of 10")
    expect(warning).to_be_hidden()


@pytest.mark.parametrize("known", ["graded", "measured"])
def test_below_what_a_file_was_graded_or_measured_for_the_page_says_so(
    tmp_path: Path, open_page: OpenPage, serve: Serve, known: str
) -> None:
    """A path that goes further down than its grading, or than what was measured on it."""
    curve = [{"flops_fraction": share, "perplexity": 60.0} for share in (1.0, 0.6)]
    graded = {"criterion": "graded", "recipe": {"train": {"graded": 0.6}}}
    model = write_small(
        tmp_path / "model.safetensors", **(graded if known == "graded" else {"provenance": {"curve": curve}})
    )
    write_page(tmp_path / "site", model)
    server = serve(FileServer(tmp_path / "site"))
    page = open_page(server.address)
    warning = page.locator("#warning")
    turn_to(page, 60)
    expect(warning).to_be_hidden()
    turn_to(page, 30)
    expect(warning).to_contain_text("was trained or measured down to 60.0% only")
    expect(page.locator("#quality-lost")).to_have_text("–")
    turn_to(page, 80)
    expect(warning).to_be_hidden()


def test_the_table_shows_time_and_quality_and_turns_the_knob(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.wait_for_selector("html[data-measured]")
    rows = page.locator("#trade-off-rows tr")
    assert rows.count() >= 5
    for row in range(1, rows.count()):
        expect(rows.nth(row).locator("td strong")).to_have_text([re.compile(r"^\d")] * 2)
        expect(rows.nth(row).locator("td small").first).to_contain_text("ms")
    rows.nth(3).get_by_role("button").click()
    percent = (rows.nth(3).get_by_role("button").text_content() or "").split("\u202f")[0]
    expect(page.locator("#knob")).to_have_attribute("aria-valuenow", percent)
    expect(rows.nth(3)).to_have_attribute("aria-current", "true")
    expect(rows.nth(3).get_by_role("button")).to_be_focused()
    expect(page.locator("#trade-off-rows tr[aria-current]")).to_have_count(1)


def test_an_ngram_stands_in_the_table(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    facts = json.loads(page.request.get(f"{site.address}model.json").text())
    ngram, whole = facts["ngram"], facts["curve"][-1]
    cells = page.locator("#ngram").locator("th, td")
    rise = f"{100 * (ngram['perplexity'] / whole['perplexity'] - 1):.0f}"
    expect(cells).to_contain_text(["5-gram", "ms\u202f*", f"{rise}\u202f%"])
    expect(cells.last).to_contain_text(f"{ngram['perplexity']:.1f}")
    note = page.locator("#ngram-note")
    expect(note).to_contain_text(f"{ngram['size_bytes'] / 1e6:.0f} MB instead of")
    expect(note).to_contain_text(f"saves {100 * ngram['keystrokes_saved_share']:.1f}\u202f% of the keystrokes")
    expect(note).to_contain_text(f"({ngram['machine']})")


def test_without_a_measured_ngram_there_is_no_row(tmp_path: Path, open_page: OpenPage, serve: Serve) -> None:
    write_page(tmp_path / "site", write_small(tmp_path / "model.safetensors"))
    server = serve(FileServer(tmp_path / "site"))
    page = open_page(server.address)
    page.wait_for_selector("html[data-measured]")
    expect(page.locator("#ngram")).to_be_hidden()
    expect(page.locator("#ngram-note")).to_be_hidden()


# Writing


def test_undo_brings_the_typed_letters_back(site: FileServer, open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page(site.address)
    text, first = page.locator("#text"), words(predictor, "how are y")[0]
    for undo in (lambda: page.keyboard.press("Control+z"), lambda: page.locator("#undo").click()):
        text.fill("")
        page.keyboard.type("how are y")
        expect_suggestions(page, words(predictor, "how are y"))
        page.keyboard.press("Alt+Digit1")
        expect(text).to_have_value(f"how are {first} ")
        expect(page.locator("#undo")).to_have_text("↶ y")
        undo()
        expect(text).to_have_value("how are y")
        expect(text).to_be_focused()
        expect(page.locator("#undo")).to_be_hidden()
    page.keyboard.press("Control+Shift+z")
    expect(text).to_have_value(f"how are {first} ")
    page.keyboard.type("x")
    expect(page.locator("#undo")).to_be_hidden()


@pytest.mark.parametrize("typed", ["hello", "hell"])
def test_undo_after_a_word_taken_in_the_middle_leaves_the_rest(
    site: FileServer, open_page: OpenPage, typed: str
) -> None:
    page = open_page(site.address)
    text = page.locator("#text")
    page.keyboard.type(f"we say {typed} world")
    for _ in " world":
        page.keyboard.press("ArrowLeft")
    page.locator("#suggestions").get_by_role("button", name=re.compile("^hello")).click()
    expect(text).to_have_value("we say hello world")
    if typed == "hell":
        expect(page.locator("#undo")).to_have_text("↶ hell")
        page.locator("#undo").click()
        expect(text).to_have_value("we say hell world")
    else:
        expect(page.locator("#undo")).to_be_hidden()  # nothing was replaced


def test_undo_goes_back_word_by_word(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.keyboard.type("one two")
    seen = []
    for _ in range(4):
        page.keyboard.press("Control+z")
        seen.append(page.locator("#text").input_value())
    assert seen == ["one ", "one", "", ""]


def test_there_is_one_space_after_a_full_stop(site: FileServer, open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page(site.address)
    page.keyboard.type("he")
    expect_suggestions(page, words(predictor, "he"))
    page.keyboard.press("Alt+Digit1")
    first = words(predictor, "he")[0]
    page.keyboard.type(". a  b")
    expect(page.locator("#text")).to_have_value(f"{first}. a  b")


@pytest.mark.parametrize("emoji", ["👍🏽", "👨‍👩‍👧", "🇩🇪", "❤️", "e\u0301"])
def test_delete_takes_what_looks_like_one_character(site: FileServer, open_page: OpenPage, emoji: str) -> None:
    page = open_page(site.address)
    page.locator("#text").fill(f"a{emoji}")
    page.locator("#keys").get_by_role("button", name="Delete").click()
    expect(page.locator("#text")).to_have_value("a")


def test_two_taps_on_shift_lock_the_capitals(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)

    def tap(*names: str) -> None:
        for name in names:
            page.locator("#keys").get_by_role("button", name=name, exact=True).click()

    tap("H", "i", "Space")
    page.locator("#keys").get_by_role("button", name="Shift").dblclick()
    tap("O", "K", "Space", "N", "Caps lock", "o")
    expect(page.locator("#text")).to_have_value("Hi OK No")


def test_caps_lock_holds_for_suggestions_too(site: FileServer, open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page(site.address)
    keys = page.locator("#keys")

    def capitals(text: str) -> list[str]:
        return [word.upper() for word in words(predictor, text)]

    page.locator("#text").fill("see you ")
    expect_suggestions(page, words(predictor, "see you "))
    keys.get_by_role("button", name="Shift").dblclick()
    expect_suggestions(page, capitals("see you "))
    page.keyboard.press("Alt+Digit1")
    text = f"see you {capitals('see you ')[0]} "
    expect(page.locator("#text")).to_have_value(text)
    expect_suggestions(page, capitals(text))
    keys.get_by_role("button", name="T", exact=True).click()
    expect_suggestions(page, capitals(f"{text}T"))
    keys.get_by_role("button", name="Caps lock").click()
    expect_suggestions(page, words(predictor, f"{text}T"))
    for is_on in (True, False):  # the lock of a real keyboard
        page.evaluate("(on) => document.dispatchEvent(new KeyboardEvent('keyup', { modifierCapsLock: on }))", is_on)
        expect_suggestions(page, capitals(f"{text}T") if is_on else words(predictor, f"{text}T"))


def test_a_phone_on_its_side_shows_all_keys(site: FileServer, open_page: OpenPage) -> None:
    for viewport in ((667, 375), (844, 390), (568, 320)):
        size = {"width": viewport[0], "height": viewport[1]}
        page = open_page(site.address, **{**SIDEWAYS, "viewport": size})
        expect(page.locator("#suggestions button:enabled")).to_have_count(3)
        assert page.evaluate("scrollY") == 0
        bottom = page.evaluate(
            "Math.max(...[...document.querySelectorAll('.key')].map((key) => key.getBoundingClientRect().bottom))"
        )
        top = page.evaluate("document.querySelector('#text').getBoundingClientRect().top")
        assert top >= 0 and bottom <= viewport[1]


def test_text_may_run_from_right_to_left(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.locator("#text").fill("مرحبا")
    assert page.evaluate("getComputedStyle(document.querySelector('#text')).direction") == "rtl"
    page.locator("#text").fill("hello")
    assert page.evaluate("getComputedStyle(document.querySelector('#text')).direction") == "ltr"


# Taught words


def test_a_word_is_learned_kept_and_forgotten_with_keys_alone(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.keyboard.type("Zugspitze ")
    expect(page.locator("#learn")).to_have_text("Learn “Zugspitze”")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "learn"
    page.keyboard.press("Enter")
    expect(page.locator("#learn")).to_be_hidden()
    expect(page.locator("#text")).to_be_focused()
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.keyboard.type("see the zug")
    expect(page.locator("#suggestions button").first).to_have_text("Zugspitze")
    page.keyboard.press("Alt+Digit1")
    expect(page.locator("#text")).to_have_value("see the Zugspitze ")
    page.locator("#words summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#words-list li")).to_have_count(1)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "Forget Zugspitze"
    page.keyboard.press("Enter")
    expect(page.locator("#words-list li")).to_have_count(0)
    expect(page.locator("#words summary")).to_be_focused()
    page.locator("#text").fill("see the zug")
    expect(page.locator("#suggestions")).to_contain_text("zug")
    expect(page.locator("#suggestions")).not_to_contain_text("Zugspitze")


def test_the_memory_is_switched_seen_and_forgotten_with_keys_alone(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    page.locator("#memory summary").focus()
    for key in ("Enter", "Tab", "Space"):
        page.keyboard.press(key)
    expect(page.get_by_label("Learn from what I write")).to_be_checked()
    page.locator("#text").focus()
    page.keyboard.type("I like winter more than ")
    expect(page.locator("#memory-list")).to_contain_text("winter")
    page.locator("#memory summary").focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.ariaLabel") == "Forget winter":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#memory-list")).not_to_contain_text("winter")
    expect(page.locator("#memory summary")).to_be_focused()
    page.locator("#text").focus()
    page.keyboard.press("Control+Enter")
    expect(page.locator("#text")).to_have_value("")
    expect(page.locator("#memory-list")).to_contain_text("than")


def test_learned_words_rank_as_in_python(site: FileServer, open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page(site.address)
    with Predictor(threads=1) as taught:
        for word in ("Hogwarts", "Heidelberg", "Hogwarts"):
            taught.learn(word)
        stored = [
            {"word": one.word, "count": one.count, "last_used": one.last_used} for one in taught.user_words.words()
        ]
        page.evaluate("(words) => localStorage.setItem('words', JSON.stringify(words))", stored)
        for text in ("I go to H", "I go to ho", "hei", "I go to "):
            page.locator("#text").fill(text)
            expect_suggestions(page, words(taught, text))


# Screen readers, and both themes


def open_panels(page: Page) -> None:
    """Open all that can be opened, with the memory on."""
    for name in ("writing", "words", "memory"):
        page.locator(f"#{name} summary").click()
    page.get_by_label("Learn from what I write").check()
    page.locator("#text").focus()


def test_the_tree_of_a_screen_reader_names_everything(site: FileServer, open_page: OpenPage) -> None:
    page = open_page(site.address)
    open_panels(page)
    page.keyboard.type("I like winter. How are ")
    expect(page.locator("#memory-list")).to_contain_text("winter")
    expect(page.locator("#suggestions button:enabled")).to_have_count(3)
    expect(page.locator("body")).to_match_aria_snapshot("""
      - banner:
        - heading "Rheostat" [level=1]
      - main:
        - region "Write":
          - textbox "Your text"
          - group "Suggestions":
            - button /.+/
            - button /.+/
            - button /.+/
          - group /On-screen keyboard/:
            - button "q"
        - region "Power":
          - heading "Knob" [level=2]
          - slider "Knob"
          - heading "Battery" [level=2]
          - slider "Battery"
          - checkbox "On the charger"
          - checkbox "The device turns the knob"
          - table "Time saved and quality lost":
            - rowgroup:
              - row "Knob Time saved Quality lost"
            - rowgroup:
              - row:
                - rowheader:
                  - button "Turn the knob to 100 percent"
          - group:
            - text: Writing
            - checkbox "Correct slips when a word ends" [checked]
            - checkbox "Words of this text become more likely"
          - group:
            - text: Learned words 0
          - group:
            - text: /Learned from your writing \\d+/
            - checkbox "Learn from what I write" [checked]
            - checkbox "This text is private"
            - list:
              - listitem:
                - button "Forget winter"
            - paragraph:
              - button "Forget the last hour"
              - button "Forget everything"
            - paragraph:
              - button /Done. start a new text/
    """)


CONTRAST = """() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const rgb = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (colour) => rgb(colour).slice(0, 3).map((part) => part / 255)
        .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
        .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
    const ground = (one) => {
        while (one && rgb(getComputedStyle(one).backgroundColor)[3] === 0) one = one.parentElement;
        return light(getComputedStyle(one).backgroundColor);
    };
    const low = [];
    for (const one of document.querySelectorAll("main *, header *, footer *")) {
        const hasText = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!hasText || one.closest("svg, .hidden, [hidden], .battery")) continue;
        const [a, b] = [light(getComputedStyle(one).color), ground(one)].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) low.push(one.id || one.className || one.tagName);
    }
    return low;
}"""


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize("device", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_text_can_be_read_in_both_themes(
    site: FileServer, open_page: OpenPage, device: dict[str, Any], look: str
) -> None:
    page = open_page(site.address, color_scheme=look, **device)
    page.wait_for_selector("html[data-measured]")
    open_panels(page)
    page.keyboard.type("I like winter. What are you dping ")
    expect(page.locator("#undo")).to_have_text("↶ dping")
    expect(page.locator("#memory-list")).to_contain_text("winter")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= device["viewport"]["width"]
    page.locator("#text").fill("teh")
    expect(page.locator('#suggestions button[data-kind="correction"]').first).to_be_visible()
    assert page.evaluate(CONTRAST) == []
    page.locator("#text").fill("Zugspitze ")
    expect(page.locator("#learn")).to_be_visible()
    page.evaluate(
        "() => Object.assign(document.getElementById('warning'), {hidden: false, textContent: 'Not measured.'})"
    )
    expect(page.locator("#warning")).to_be_visible()
    assert page.evaluate(CONTRAST) == []
    small = page.evaluate(
        """() => [...document.querySelectorAll('main button')]
            .filter((one) => one.offsetParent && !one.closest('table, .link, .words')
            && one.getBoundingClientRect().height < 33).map((one) => one.id || one.textContent)"""
    )
    assert [name for name in small if name != "measure"] == []
