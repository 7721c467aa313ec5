"""Going through a page by Tab."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

PREPARE = """(ignored) => {
  const root = document.querySelector(".as-root, .agent-usage, #content, main");
  const controls = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const look = (element) => {
    const style = getComputedStyle(element);
    const line = style.outlineStyle === "none" ? "0px" : style.outlineWidth;
    return [line, style.boxShadow, style.borderColor, style.backgroundColor, style.textDecoration];
  };
  const groups = new Set();
  const wanted = new Map();
  for (const element of root.querySelectorAll(controls)) {
    if (element.matches(ignored) || element.type === "hidden") continue;
    if (element.disabled || element.tabIndex < 0) continue;
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.type === "radio") {
      // Tab stops once in a group, and arrows do the rest.
      if (groups.has(element.name)) continue;
      groups.add(element.name);
    }
    wanted.set(element.type === "radio" ? element.name : element, look(element).join());
  }
  window.__reached = new Map();
  document.addEventListener("focusin", ({ target }) => {
    const key = target.type === "radio" ? target.name : target;
    const changed = wanted.get(key) !== look(target).join();
    window.__reached.set(key, changed || getComputedStyle(target).outlineStyle !== "none");
  });
  window.__wanted = wanted;
  document.activeElement?.blur();
  const start = document.createElement("span");
  start.tabIndex = -1;
  root.prepend(start);
  start.focus({ preventScroll: true });
  // In a date, Tab stops at the day, the month, the year and the calendar.
  return wanted.size + 3 * root.querySelectorAll("[type=date]").length;
}"""

FAULTS = """() => {
  const name = (key) => (typeof key === "string" ? key : key.outerHTML.slice(0, 120));
  const found = [];
  for (const key of window.__wanted.keys()) {
    // Hidden since then: the page was still being laid out for its new width.
    if (key.checkVisibility && !key.checkVisibility({ visibilityProperty: true })) continue;
    if (!window.__reached.has(key)) found.push(`not reached: ${name(key)}`);
    else if (!window.__reached.get(key)) found.push(`no focus is seen: ${name(key)}`);
  }
  return found;
}"""


def unreachable(page: Page, ignored: str) -> list[str]:
    """Presses Tab as often as the page has controls; returns those that got no visible focus."""
    for _ in range(page.evaluate(PREPARE, ignored)):
        page.keyboard.press("Tab")
    found: list[str] = page.evaluate(FAULTS)
    return found
