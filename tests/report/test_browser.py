"""Reports as a browser shows them: nothing is loaded, or wider than the screen, and text is told from its ground."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import bigsmic
from bigsmic.datasets import tetrodes

pytestmark = pytest.mark.slow

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install '.[test]'")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCREENSHOTS = os.environ.get("BIGSMIC_SCREENSHOTS")
"""Folder in which screenshots are kept."""
FITS = {
    "smic": (5, {}),
    "noise": (5, {"noise": True}),
    "rim": (5, {"method": "rim"}),
    "mspc": (5, {"method": "mspc"}),
    "mwca": (5, {"method": "mwca", "kernel": "local_scaling"}),
    "mic": (5, {"method": "mic"}),
    "3smic": (5, {"method": "3smic", "must_links": [[0, 1]], "cannot_links": [[2, 3]]}),
}
NAMES = [f"a column with a long name and a number, {j}" for j in range(152)]


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("needs chromium: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module", params=FITS)
def report(request, tmp_path_factory):
    c, options = FITS[request.param]
    X, _ = tetrodes(n_rows=1500, n_units=5, seed=1)
    folder = tmp_path_factory.mktemp("report")
    names = NAMES if request.param in ("noise", "mspc") else None
    path = folder / f"{request.param}.html"
    bigsmic.fit(X, c, out=folder / "run", **options).report(path, archive=X, column_names=names, times=np.arange(1500))
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_page_fits_its_screen_and_loads_nothing(browser, report, width, scheme, tmp_path):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(report.as_uri())
    page.screenshot(path=Path(SCREENSHOTS or tmp_path) / f"{report.stem}-{width}-{scheme}.png", full_page=True)
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(WIDER) == []
    assert page.evaluate(CONTRAST) >= 4.5
    assert set(page.evaluate(TEXT_OF_FIGURES)) - ON_COLORS == {page.evaluate("getComputedStyle(document.body).color")}
    page.close()


WIDER = """[...document.querySelectorAll('p, dl, h1, h2, figure, svg, .table, pre, nav')]
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
"""What reaches beyond the screen; tables are scrolled within their frames."""
TEXT_OF_FIGURES = "[...new Set([...document.querySelectorAll('figure svg text')].map(e => getComputedStyle(e).fill))]"
ON_COLORS = {"rgb(0, 0, 0)", "rgb(255, 255, 255)"}
"""Of names of clusters, on the colours of these."""
CONTRAST = """(() => {
  const linear = x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
  const light = color => { const v = color.match(/\\d+/g).slice(0, 3).map(x => linear(x / 255));
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2] };
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...['body', 'a', '.caption', '.date', 'dt', 'th'].map(name => document.querySelector(name))
    .filter(e => e).map(e => light(getComputedStyle(e).color))
    .map(l => (Math.max(l, ground) + .05) / (Math.min(l, ground) + .05)));
})()"""
"""Least contrast of text and ground, as WCAG has it."""
