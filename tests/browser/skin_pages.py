"""Every page of the admin in each width and colour scheme, in the admin that the settings name.

:mod:`.test_stock` runs it here, :mod:`.test_unfold` and :mod:`.test_jazzmin` with other settings in
a process of their own. With ``SKIN_PICTURES``, a picture of each is stored in that folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.test import override_settings

from . import example
from .admin_pages import LIST, PARTS, SETTINGS, go
from .keyboard import unreachable
from .test_pages import unfold, violations

# A dozen pages in each test, each in six looks: twenty seconds on a quiet machine.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]

SKIN = next((name for name in ("unfold", "jazzmin") if name in settings.INSTALLED_APPS), "stock")
WIDTHS = (1440, 1024, 390)
OURS = (
    None if SKIN == "stock" else [".as-root", ".agent-usage", ".as-hold", ".as-search", ".as-pages"]
)
"""What axe judges where everything else is drawn by another package."""

UNFOLDS_OWN = "#searchbar.grow, #searchbar-submit"
"""Its search, of which the frame shows the focus, and a button of which nothing does."""

FOLDER = os.environ.get("SKIN_PICTURES")

DRESS = """([skin, dark]) => {
  const root = document.documentElement;
  if (skin === "unfold") root.classList.toggle("dark", dark);
  if (skin === "jazzmin") root.dataset.bsTheme = dark ? "dark" : "light";
  // Else what is out of sight would keep the style of before.
  root.classList.add("as-measured");
  for (const each of document.getAnimations()) each.finish();
}"""
"""What unfold's and jazzmin's switches do, without loading the page anew."""

LOST = "(fields) => fields.filter((each) => !each.form).map((each) => each.outerHTML)"

FILL_IN = "(field, text) => { field.value = text; field.form.requestSubmit(); }"

CLIPPED = """() => {
  const found = [];
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`the page is ${wide} pixels wide`);
  const root = document.querySelector(".as-root, .agent-usage, #content, main");
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const text = range.getBoundingClientRect();
    let where = text.width && (text.right > innerWidth + 1 || text.left < -1) ? "page" : "";
    for (let each = node.parentElement; each !== root; each = each.parentElement) {
      const style = getComputedStyle(each), box = each.getBoundingClientRect();
      // What may be scrolled to, what is only for screen readers, and what a title has in full.
      const whole = style.textOverflow === "ellipsis" && each.title;
      const scrolls = ["auto", "scroll"].includes(style.overflowX);
      const unseen = box.width <= 1 || each.classList.contains("visually-hidden");
      if (scrolls || whole || unseen || style.position === "fixed") { where = ""; break; }
      const hides = ["hidden", "clip"].includes(style.overflowX);
      if (hides && (text.right > box.right + 1 || text.left < box.left - 1)) where = each.className;
    }
    if (where) found.push(`${where}: ${node.data.trim().slice(0, 60)}`);
  }
  return found;
}"""
"""Texts that are cut off where nobody can scroll and no title has the whole."""


@pytest.mark.parametrize("part", PARTS)
@override_settings(AGENT_SESSIONS=SETTINGS)
def test_every_page_fits_and_can_be_read_and_used_by_keyboard(open_page, clerk, part):
    page = open_page()
    page.set_default_timeout(60_000)
    found = []
    for name, path, fields in PARTS[part](clerk):
        page.set_viewport_size(size(WIDTHS[0]))
        dress(page, "light")
        go(page, path, fields)
        faults = []
        for scheme in ("light", "dark"):
            dress(page, scheme)
            # What is dark has the same place: its other widths are for the pictures.
            for width in WIDTHS if scheme == "light" or FOLDER else ():
                page.set_viewport_size(size(width))
                picture(page, f"{name}-{width}-{scheme}")
                if scheme == "light":
                    faults += [f"{width}: {each}" for each in page.evaluate(CLIPPED)]
            page.set_viewport_size(size(WIDTHS[0]))
            if scheme == "light":
                faults += [f"by Tab: {each}" for each in unreachable(page, UNFOLDS_OWN)]
            unfold(page)
            faults += [
                f"{scheme}: {each}"
                for each in violations(page, others=scheme == "light", within=OURS)
            ]
        found += [f"{SKIN} {name}: {fault}" for fault in faults]
    assert not found, "\n".join(found)


@override_settings(AGENT_SESSIONS=SETTINGS)
def test_the_search_and_the_filters_beside_it_are_sent(open_page, clerk):
    example.others(12)
    example.conversation()
    page = open_page(LIST)
    page.set_default_timeout(60_000)
    # The fields that would not be sent are those of no form.
    assert not page.locator("#searchbar, #change-list-filters select").evaluate_all(LOST)
    for name, text in {"q": "refund", "agent": "billing"}.items():
        page.locator(f"[name={name}]").first.evaluate(FILL_IN, text)
        page.wait_for_function("(sent) => location.search.includes(sent)", arg=f"{name}={text}")
        page.wait_for_load_state()
    assert {"q=refund", "agent=billing"} <= {*urlsplit(page.url).query.split("&")}
    assert page.locator("#result_list tbody tr").count() == 1
    assert page.get_by_role("link", name="Parcel arrived damaged").count() == 1


def size(width):
    return {"width": width, "height": 900}


def dress(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.evaluate(DRESS, [SKIN, scheme == "dark"])


def picture(page, name):
    if FOLDER:
        Path(FOLDER).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(FOLDER) / f"{SKIN}-{name}.png"), full_page=True)
