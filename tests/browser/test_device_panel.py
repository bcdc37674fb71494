"""The thermometer, the power saver and this device's own readings, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, of the dev extra")
expect = sync_api.expect
OpenPage = Callable[..., Any]
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def expect_knob(page: Page, percent: int, reason: str) -> None:
    expect(page.locator("#knob")).to_have_attribute("aria-valuenow", str(percent))
    expect(page.locator("#reason")).to_contain_text(reason)


def test_the_thermometer_turns_the_knob_from_the_keyboard(open_page: OpenPage) -> None:
    page = open_page()
    thermometer = page.get_by_role("slider", name="Heat")
    thermometer.focus()
    page.keyboard.press("ArrowRight")
    expect(thermometer).to_have_attribute("aria-valuetext", "light heat")
    expect_knob(page, 80, "Light heat")
    page.keyboard.press("End")
    expect(thermometer).to_have_attribute("aria-valuetext", "severe heat")
    expect_knob(page, 30, "Severe heat")
    page.keyboard.press("Home")  # ten minutes of the device's day later, which are ten seconds here
    expect(page.locator("#knob")).to_have_attribute("aria-valuenow", "100", timeout=30_000)


def test_the_power_saver_turns_the_knob_on_a_phone(open_page: OpenPage) -> None:
    page = open_page(**PHONE)
    page.get_by_label("Power saver").tap()
    expect_knob(page, 60, "Power saver")
    page.get_by_label("Power saver").tap()
    expect(page.locator("#knob")).to_have_attribute("aria-valuenow", "100")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    for name in ("#heat", ".check:has(#power-saver)"):
        box = page.locator(name).bounding_box()
        assert box and box["height"] >= 24 and box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_the_lowest_knob_wins_and_is_named(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_label("Power saver").check()
    expect_knob(page, 60, "Power saver")
    page.get_by_role("slider", name="Heat").focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect_knob(page, 50, "Moderate heat")


def test_the_governor_needs_no_server(open_page: OpenPage) -> None:
    page = open_page(may_fail=True, service_workers="block")
    page.route("**/api/govern", lambda route: route.abort())
    page.get_by_label("Power saver").check()
    expect_knob(page, 60, "Power saver")


FAKE_DEVICE = """
    const battery = Object.assign(new EventTarget(), { level: 0.25, charging: false });
    navigator.getBattery = async () => battery;
    window.PressureObserver = class {
        constructor(callback) { window.press = (state) => callback([{ state }]); }
        async observe() {}
        disconnect() {}
    };
    window.fakeBattery = battery;
"""


def test_the_page_follows_its_device_where_the_browser_reports_it(open_page: OpenPage) -> None:
    page = open_page()
    page.evaluate(FAKE_DEVICE)
    page.get_by_label("Follow this device").check()
    expect(page.get_by_role("slider", name="Battery")).to_have_attribute("aria-valuenow", "25")
    expect_knob(page, 60, "Battery below 30")
    page.evaluate("window.press('serious')")
    expect(page.get_by_role("slider", name="Heat")).to_have_attribute("aria-valuetext", "moderate heat")


def test_a_budget_is_kept_by_what_queries_take_here(open_page: OpenPage) -> None:
    page = open_page()
    decided = page.evaluate(
        """async () => {
            const { decide, lineOf, start } = await import("/governing.js");
            const policy = { ...(await (await fetch("model.json")).json()).policy, latency_ms: 3 };
            const cost = (knob) => 1.2 * (1 + 4 * knob); // a fifth above the table
            const table = { latency_ms: lineOf([[0.2, 1.8], [1, 5]]) };
            let decision = start(1);
            for (let minute = 0; minute < 10; minute++) {
                const observed = minute ? cost(decision.knob) : null;
                const situation = { time_s: 90 * minute, charging: true, latency_ms: observed };
                decision = decide(policy, situation, decision, table);
            }
            return [decision.reason, cost(decision.knob)];
        }"""
    )
    assert decided[0] == "budget of 3 ms"
    assert 0.95 * 3 <= decided[1] <= 1.02 * 3
