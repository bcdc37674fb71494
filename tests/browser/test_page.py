"""The keyboard page in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from keyboard_process import Serve, Server, shown_words
from make_writing_cases import PATH as WRITING_CASES

from rheostat.runtime.predictor import Predictor

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

OpenPage = Callable[..., "Page"]

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, of the dev extra")
expect = sync_api.expect
expect.set_options(timeout=30_000)

TEXTS = (
    "",
    "how are ",
    "how are y",
    "I do",
    "Hello, W",
    "see you on mon",
    "don’",
    "it's 7:30 in P",
    "word by word\nth",
)


@pytest.fixture
def predictor(model: Path) -> Predictor:
    return Predictor(model, threads=1)


def words(predictor: Predictor, text: str) -> list[str]:
    return shown_words(predictor.complete(text))


def expect_suggestions(page: Page, wanted: list[str]) -> None:
    expect(page.locator("#suggestions button:enabled")).to_have_text(wanted)


def drag(page: Page, target: str, *places: tuple[float, float]) -> None:
    """Drag with the mouse over places, given as shares of an element's width and height."""
    box = page.locator(target).bounding_box()
    assert box
    points = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places]
    page.mouse.move(*points[0])
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*point, steps=6)
    page.mouse.up()


def use_server(page: Page) -> None:
    page.get_by_text("On the server", exact=True).click()
    expect(page.locator("#figure-time-note")).to_have_text("on the server")


# Writing


def test_suggestions_follow_every_key(open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page()
    expect_suggestions(page, words(predictor, ""))
    typed = ""
    for character in "How are y":
        page.keyboard.type(character)
        typed += character
        expect_suggestions(page, words(predictor, typed))


def test_tapping_a_suggestion_replaces_the_typed_letters(open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page()
    page.keyboard.type("how are y")
    first = words(predictor, "how are y")[0]
    expect_suggestions(page, words(predictor, "how are y"))
    page.locator("#suggestions button").first.click()
    expect(page.locator("#text")).to_have_value(f"how are {first} ")
    expect_suggestions(page, words(predictor, f"how are {first} "))
    needed = len(f"how are {first} ")
    expect(page.locator("#figure-saved-note")).to_have_text(f"{needed - 10} of {needed}")


def test_a_shortcut_inserts_a_suggestion_and_a_sign_replaces_its_space(
    open_page: OpenPage, predictor: Predictor
) -> None:
    page = open_page()
    page.keyboard.type("he")
    second = words(predictor, "he")[1]
    expect_suggestions(page, words(predictor, "he"))
    page.keyboard.press("Alt+Digit2")
    expect(page.locator("#text")).to_have_value(f"{second} ")
    page.keyboard.type("!")
    expect(page.locator("#text")).to_have_value(f"{second}! ")


def test_a_suggestion_in_the_middle_of_a_text_leaves_the_rest_unchanged(
    open_page: OpenPage, predictor: Predictor
) -> None:
    page = open_page()
    page.keyboard.type("how  you")
    for _ in " you":
        page.keyboard.press("ArrowLeft")
    page.keyboard.type("ar")
    expect_suggestions(page, words(predictor, "how ar"))
    page.keyboard.press("Alt+Digit1")
    expect(page.locator("#text")).to_have_value(f"how {words(predictor, 'how ar')[0]} you")


def test_the_on_screen_keys_type(open_page: OpenPage) -> None:
    page = open_page()
    for name in ("H", "i", "Space", "Comma", "Delete", "Numbers and signs", "7", "Letters", "Shift", "X"):
        page.locator("#keys").get_by_role("button", name=name, exact=True).click()
    expect(page.locator("#text")).to_have_value("Hi 7X")
    expect(page.locator("#text")).to_be_focused()


def test_touch_typing_does_not_open_the_system_keyboard(open_page: OpenPage) -> None:
    page = open_page(has_touch=True, is_mobile=True, viewport={"width": 375, "height": 812})
    for key in "Yes":
        page.locator("#keys").get_by_role("button", name=key, exact=True).tap()
    expect(page.locator("#text")).to_have_value("Yes")
    assert page.locator("#text").get_attribute("inputmode") == "none"
    page.locator("#suggestions button:enabled").first.tap()
    expect(page.locator("#text")).not_to_have_value("Yes")


def test_everything_can_be_done_without_a_mouse(open_page: OpenPage) -> None:
    page = open_page()
    expect(page.locator("#text")).to_be_focused()
    expect(page.locator("#suggestions button:enabled")).to_have_count(3)
    expect(page.locator("#trade-off-rows")).to_contain_text("ms")  # measured: the table is not drawn again below
    order = []
    for _ in range(11):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.parentElement.id || 'keys'"))
    device = ["battery", "heat", "charging", "power-saver", "follow", "governed"]
    assert order == ["suggestions"] * 3 + ["keys", "knob", *device]
    while page.evaluate("document.activeElement.closest('#trade-off-rows') !== null") or len(order) == 11:
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert order[-1] == "measure"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.locator("#keys button[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "Enter", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#text")).to_have_value("Sa")


def test_everything_has_a_name_for_a_screen_reader(open_page: OpenPage) -> None:
    page = open_page()
    expect(page.locator("#suggestions button:enabled")).to_have_count(3)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, input, textarea, [role=slider]')].filter((one) =>
            !one.hidden && !(one.ariaLabel || one.textContent.trim() || one.labels?.length ||
            document.getElementById(one.getAttribute('aria-labelledby')))).length"""
    )
    assert nameless == 0
    assert "percent" in (page.get_by_role("slider", name="Knob").get_attribute("aria-valuetext") or "")
    page.keyboard.type("how ")
    expect(page.get_by_role("status")).to_contain_text("Suggestions: ")


# Late answers


def test_what_is_typed_before_the_model_is_known_gets_suggestions(open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page(service_workers="block")
    held: list[Route] = []
    page.route("**/model.json", lambda route: held.append(route))
    page.reload()
    page.locator("#text").fill("how are y")
    page.wait_for_timeout(300)
    for route in held:
        route.continue_()
    page.unroute("**/model.json")
    expect_suggestions(page, words(predictor, "how are y"))
    expect(page.get_by_role("alert")).to_be_hidden()


def test_an_outdated_answer_is_dropped(open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page(service_workers="block")
    use_server(page)
    page.locator("#text").focus()
    late: list[Route] = []

    def delay(route: Route) -> None:
        asked = json.loads(route.request.post_data or "{}")
        if asked["text"] == "h":
            late.append(route)
        else:
            route.continue_()

    page.route("**/api/suggest", delay)
    page.keyboard.type("h")
    page.keyboard.type("ow are ")
    expect_suggestions(page, words(predictor, "how are "))
    answer = {"suggestions": [{"word": "late", "probability": 1, "source": "model", "replaces": 1}], "knob": 1}
    for route in late:
        route.fulfill(json=answer)
    page.wait_for_timeout(200)
    expect_suggestions(page, words(predictor, "how are "))


def test_suggestions_for_an_older_text_cannot_be_inserted(open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page(service_workers="block")
    use_server(page)
    page.locator("#text").focus()
    page.keyboard.type("how")
    expect_suggestions(page, words(predictor, "how"))
    page.route("**/api/suggest", lambda route: None)  # never answered
    page.keyboard.type(" ")
    page.locator("#suggestions button").first.click()
    page.keyboard.type("x")
    expect(page.locator("#text")).to_have_value("how x")


# The knob and the battery


def test_the_knob_turns_with_the_keyboard(open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page()
    page.keyboard.type("how are ")
    knob = page.get_by_role("slider", name="Knob")
    knob.focus()
    for key, value in (
        ("PageDown", 90),
        ("ArrowLeft", 89),
        ("ArrowUp", 90),
        ("End", 100),
        ("Home", None),
        ("PageUp", None),
    ):
        page.keyboard.press(key)
        if value:
            expect(knob).to_have_attribute("aria-valuenow", str(value))
    at = int(knob.get_attribute("aria-valuenow") or 0)
    assert at == int(knob.get_attribute("aria-valuemin") or 0) + 10
    predictor.turn(at / 100)
    expect_suggestions(page, words(predictor, "how are "))
    expect(page.locator("#point")).to_have_attribute("title", predictor.point.name)
    expect(page.locator("#figure-flops-note")).to_have_text(f"{100 * predictor.flops_fraction:.1f} % of all")


def test_the_knob_turns_with_the_mouse_and_stops_at_its_ends(open_page: OpenPage, predictor: Predictor) -> None:
    page = open_page()
    page.keyboard.type("how are ")
    knob = page.get_by_role("slider", name="Knob")
    drag(page, "#knob", (0.9, 0.6), (0.7, 0.1), (0.5, 0.05))
    expect(knob).to_have_attribute("aria-valuenow", "50")
    predictor.turn(0.5)
    expect_suggestions(page, words(predictor, "how are "))
    drag(page, "#knob", (0.5, 0.05), (0.95, 0.5), (0.6, 0.99), (0.4, 0.99), (0.1, 0.7))
    expect(knob).to_have_attribute("aria-valuenow", "100")


def test_dragging_the_battery_down_turns_the_knob(open_page: OpenPage) -> None:
    page = open_page()
    knob = page.get_by_role("slider", name="Knob")
    drag(page, "#battery", (0.95, 0.5), (0.6, 0.5), (0.2, 0.5))
    expect(page.get_by_role("slider", name="Battery")).to_have_attribute("aria-valuenow", "20")
    expect(knob).to_have_attribute("aria-valuenow", "60")
    expect(page.locator("#reason")).to_contain_text("Battery below 30")
    page.get_by_label("On the charger").check()
    expect(knob).to_have_attribute("aria-valuenow", "100")
    expect(page.locator("#reason")).to_contain_text("Charging")


def test_turning_the_knob_by_hand_switches_the_governor_off(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_role("slider", name="Battery").focus()
    for _ in range(6):
        page.keyboard.press("PageDown")
    expect(page.locator("#knob")).to_have_attribute("aria-valuenow", "80")
    page.locator("#knob").focus()
    page.keyboard.press("End")
    expect(page.get_by_label("The device turns the knob")).not_to_be_checked()
    page.wait_for_timeout(1500)
    expect(page.locator("#knob")).to_have_attribute("aria-valuenow", "100")


# The model in the browser


def test_the_writing_rules_are_the_same_in_the_browser(open_page: OpenPage) -> None:
    page = open_page()
    check = (Path(__file__).parent / "check_writing.mjs").read_text(encoding="utf-8")
    function = check.partition("export ")[2].partition("\nif (")[0]
    found = page.evaluate(
        f"""async (cases) => {{
            const END = 24;
            {function}
            return differences(await import("/vocabulary.js"), await import("/writing.js"), cases).slice(0, 5);
        }}""",
        json.loads(WRITING_CASES.read_text(encoding="utf-8")),
    )
    assert found == []


@pytest.mark.parametrize("percent", [100, 60])
@pytest.mark.parametrize("engine", ["browser", "server"])
def test_both_engines_suggest_what_python_suggests(
    open_page: OpenPage, predictor: Predictor, engine: str, percent: int
) -> None:
    page = open_page()
    predictor.turn(percent / 100)
    knob = page.locator("#knob")
    knob.focus()
    for _ in range((100 - percent) // 10):
        page.keyboard.press("PageDown")
    if engine == "server":
        use_server(page)
    expect(page.locator("#point")).to_have_text("the whole model" if percent == 100 else "part of the model")
    expect(page.locator("#point")).to_have_attribute("title", predictor.point.name)
    for text in TEXTS:
        page.locator("#text").fill(text)
        expect_suggestions(page, words(predictor, text))


def test_the_page_needs_no_server_after_the_first_visit(
    model: Path, open_page: OpenPage, serve: Serve, predictor: Predictor
) -> None:
    server = serve(Server(model))
    page = open_page(server.address, may_fail=True)
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    server.stop()
    page.reload()
    page.wait_for_selector("html[data-ready]")
    page.locator("#text").fill("how are y")
    expect_suggestions(page, words(predictor, "how are y"))
    page.locator("#knob").focus()
    page.keyboard.press("PageDown")
    predictor.turn(0.9)
    expect_suggestions(page, words(predictor, "how are y"))


# A server that stops, and windows of all sizes


def test_the_page_recovers_when_the_server_comes_back(
    model: Path, open_page: OpenPage, serve: Serve, predictor: Predictor
) -> None:
    server = serve(Server(model))
    page = open_page(server.address, may_fail=True, service_workers="block")
    use_server(page)
    page.locator("#text").focus()
    expect_suggestions(page, words(predictor, ""))
    server.stop()
    page.keyboard.type("how ")
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    expect(page.locator("#suggestions button:enabled")).to_have_count(0)
    page.keyboard.type("are ")
    server.start()
    expect_suggestions(page, words(predictor, "how are "))
    expect(page.get_by_role("alert")).to_be_hidden()


def test_the_page_fits_every_width(open_page: OpenPage) -> None:
    page = open_page()
    expect(page.locator("#suggestions button:enabled")).to_have_count(3)
    for width in (320, 375, 560, 768, 859, 1440):
        page.set_viewport_size({"width": width, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """() => [...document.querySelectorAll('main *')].filter((one) => !one.closest('.hidden, svg') &&
                one.getBoundingClientRect().right > innerWidth + 0.5).map((one) => one.className || one.id)"""
        )
        assert outside == []


def test_light_and_dark_themes_differ(open_page: OpenPage) -> None:
    page = open_page()
    colours = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(set(colours)) == 2


def test_the_browser_may_use_threads(open_page: OpenPage) -> None:
    assert open_page().evaluate("crossOriginIsolated") is True


# Taught words and corrections, on the server


def test_a_word_taught_to_the_server_is_suggested_by_it(model: Path, open_page: OpenPage, serve: Serve) -> None:
    server = serve(Server(model))
    page = open_page(server.address)
    use_server(page)
    page.locator("#text").fill("Zugspitze ")
    page.locator("#learn").click()
    expect(page.locator("#words-count")).to_have_text("1")
    page.locator("#text").fill("zug")
    first = page.locator("#suggestions button").first
    expect(first).to_have_text("Zugspitze")
    page.get_by_text("In this browser", exact=True).click()
    expect(page.locator("#words-count")).to_have_text("0")
    expect(first).not_to_have_text("Zugspitze")
    page.get_by_text("On the server", exact=True).click()
    page.locator("#words summary").click()
    page.get_by_role("button", name="Forget Zugspitze").click()
    expect(page.locator("#words-count")).to_have_text("0")
    expect(first).not_to_have_text("Zugspitze")


@pytest.mark.parametrize("typed_on", ["", "e"])
def test_a_word_taken_before_the_answer_to_the_last_letter_waits_for_it(open_page: OpenPage, typed_on: str) -> None:
    page = open_page(service_workers="block")
    use_server(page)
    text = page.locator("#text")
    text.focus()
    page.keyboard.type("see mond")
    expect(page.locator("#suggestions button").first).to_have_text("Monday")
    held: list[Route] = []
    page.route("**/api/suggest", lambda route: held.append(route))
    page.keyboard.type("a")
    page.keyboard.press("Alt+Digit1")
    page.keyboard.type(typed_on)
    for _ in range(100):
        if len(held) == len("a" + typed_on):
            break
        page.wait_for_timeout(50)
    expect(text).to_have_value("see monda" + typed_on)
    with page.expect_response("**/api/suggest"):
        held[-1].continue_()
    page.wait_for_timeout(300)
    # Once the text has changed again, the word is no longer wanted.
    expect(text).to_have_value("see mondae" if typed_on else "see Monday ")


def test_a_correction_is_shown_as_one_and_can_be_undone(open_page: OpenPage) -> None:
    page = open_page(service_workers="block")
    use_server(page)

    def correct(route: Route) -> None:
        answer = route.fetch().json()
        suggestion = {"word": "the", "probability": 0.5, "source": "model", "replaces": 3, "kind": "correction"}
        route.fulfill(json={**answer, "suggestions": [suggestion]})

    page.route("**/api/suggest", correct)
    page.locator("#text").focus()
    page.keyboard.type("teh")
    first = page.locator("#suggestions button").first
    expect(first).to_have_attribute("data-kind", "correction")
    expect(first).to_have_attribute("aria-label", "the, a correction")
    page.keyboard.press("Alt+Digit1")
    expect(page.locator("#text")).to_have_value("the ")
    page.locator("#undo").click()
    expect(page.locator("#text")).to_have_value("teh")
    page.unroute_all(behavior="ignoreErrors")  # a request may still be under way
