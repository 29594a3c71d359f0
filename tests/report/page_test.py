"""Checks pages with a strict parser and in a browser. WRITE_PAGES names the program that writes them."""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

BROWSERS = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
PHONE, SCREEN = ("--window-size=360,800",), ("--window-size=1100,800",)
DARK = ("--blink-settings=preferredColorScheme=0",)

# The test runs these scripts before and after those of the page: they collect errors and measure the result.
BEFORE = """<script>
const problems = [];
addEventListener('error', event => problems.push(event.message));
addEventListener('securitypolicyviolation', event => problems.push(event.blockedURI));
for (const kind of ['log', 'warn', 'error']) console[kind] = words => problems.push(String(words));
</script>"""
AFTER = """<script>
const faint = %s;
const wide = %s;
const widths = selector => [...document.querySelectorAll(selector)].map(each => each.getBoundingClientRect().width);
const seen = {
  problems, faint, wide, text: document.body.innerText.replaceAll('\xa0', ' '), title: document.title,
  loaded: performance.getEntriesByType('resource').map(each => each.name).filter(name => !name.startsWith('data:')),
  ground: getComputedStyle(document.body).backgroundColor, mode: document.compatMode,
  width: document.documentElement.scrollWidth, bars: widths('table td.plot rect:nth-child(2)'),
  starved: widths('rect.starved').length, lane: widths('.lanes tr:nth-child(2) svg'),
  boxes: widths('.lanes tr:nth-child(2) rect:not(.track)'), marked: widths('figure.marked').length,
  images: [...document.images].map(image => [image.naturalWidth, image.naturalHeight]),
};
document.documentElement.dataset.seen = JSON.stringify(seen);
</script>"""

# Finds text whose contrast with its background is less than 4.5 to 1 (WCAG AA).
FAINT = """
(() => {
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const parts = color => (color.match(/[0-9.]+/g) || []).map(Number);
  const background = element => {
    for (; element; element = element.parentElement) {
      const color = parts(getComputedStyle(element).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const element of document.querySelectorAll('body *:not(svg *)')) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own) continue;
    const [a, b] = [parts(getComputedStyle(element).color), background(element)].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(element.textContent.slice(0, 40) + ' ' + contrast.toFixed(2));
  }
  return faint;
})()
"""

# Finds elements that extend beyond the page's width.
TOO_WIDE = """
[...document.querySelectorAll('body, body *:not(svg *):not(thead *)')]
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5 ||
               (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && e.tagName !== 'THEAD' &&
                getComputedStyle(e).display !== 'inline' && e.tagName !== 'svg'))
  .map(e => e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 40))
"""


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="slipstream-pages-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([os.environ["WRITE_PAGES"], cls.folder], check=True, timeout=600)
        cls.pages = sorted(cls.folder.glob("*.html"))
        assert len(cls.pages) >= 9, cls.pages


class Structure(PageTest):
    def test_page_is_well_formed_and_loads_nothing(self):
        for page in self.pages:
            with self.subTest(page=page.name):
                for element in ElementTree.fromstring(page.read_text(encoding="utf-8")).iter():
                    name = element.tag.rsplit("}", 1)[-1]
                    self.assertNotIn(name, {"img", "iframe", "object", "embed", "image", "use", "base"})
                    for key, value in element.attrib.items():
                        self.assertFalse(key.startswith("on"), key)
                        if key.rsplit("}", 1)[-1] in {"src", "href", "srcset", "data", "action"}:
                            self.assertTrue(value.startswith("data:"), value)


class InABrowser(PageTest):
    results = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = next(filter(None, map(shutil.which, BROWSERS)), None)
        if not cls.program:
            if os.environ.get("CI"):
                raise AssertionError("Chromium is not installed: scripts/setup.sh --lint installs it")
            raise unittest.SkipTest("Chromium is not installed: scripts/setup.sh --lint installs it")

    def open(self, page, options=SCREEN):
        """Returns the result of AFTER for a page, opened with the browser's `options`; opens it once."""
        if (page, options) in self.results:
            return self.results[page, options]
        text = (self.folder / f"{page}.html").read_text(encoding="utf-8")
        copy = self.folder / "copy.htm"
        copy.write_text(text.replace("<title>", BEFORE + "<title>", 1)
                        .replace("</body>", AFTER % (FAINT.strip(), TOO_WIDE.strip()) + "</body>"), encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="slipstream-browser-", ignore_cleanup_errors=True) as profile:
            command = [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                       f"--user-data-dir={profile}", "--dump-dom", *options, copy.as_uri()]
            dom = subprocess.run(command, check=True, timeout=300, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL).stdout.decode()
        found = self.results[page, options] = json.loads(html.unescape(re.search('data-seen="([^"]*)"', dom)[1]))
        return found

    def test_page_opens_without_errors_or_requests_and_fits_window(self):
        for page in self.pages:
            for options in (PHONE, SCREEN) if page.stem in ("starved", "hostile", "huge", "sheet") else (SCREEN,):
                with self.subTest(page=page.stem, options=options):
                    seen = self.open(page.stem, options)
                    self.assertEqual((seen["problems"], seen["loaded"], seen["wide"]), ([], [], []))
                    self.assertLessEqual(seen["width"], int(options[0].split("=")[1].split(",")[0]))
                    self.assertEqual(seen["mode"], "CSS1Compat")
                    self.assertIn(seen["title"], seen["text"])
                    self.assertNotRegex(seen["text"], r"\b(NaN|undefined|null)\b|\[object")

    def test_every_word_of_console_output_is_visible(self):
        for page in self.folder.glob("*.txt"):
            with self.subTest(page=page.name):
                text = self.open(page.stem)["text"]
                for word in page.read_text(encoding="utf-8").split():
                    if not re.fullmatch(r"[#.]+|-|[0-9]+\.", word):
                        self.assertIn(word, text)

    def test_bar_lengths_match_values(self):
        seen = self.open("starved")
        outcome, *levels = seen["bars"][:11]  # the rate before the change, then those of the ten levels
        self.assertAlmostEqual(outcome, levels[9], delta=0.1)
        self.assertAlmostEqual(levels[9] / levels[0], 0.89 / 3.45, delta=0.005)
        self.assertGreater(levels[0], 100)
        self.assertEqual((seen["starved"], len(seen["boxes"])), (6, 4))
        self.assertAlmostEqual(seen["boxes"][2] * 4 / seen["lane"][0], 0.29 / 1.12, delta=0.01)

    def test_lanes_without_times_have_no_timeline(self):
        for name, has_lanes in (("starved", True), ("nan", False), ("infinite", False), ("empty", False)):
            self.assertEqual("by lane" in self.open(name)["text"], has_lanes, name)

    def test_color_scheme_follows_browser_and_is_light_in_print(self):
        for page in ("starved", "sheet"):
            for options, grounds in ((SCREEN, range(200, 256)), (DARK, range(60))):
                with self.subTest(page=page, options=options):
                    seen = self.open(page, options)
                    self.assertEqual(seen["faint"], [])
                    self.assertIn(int(re.search(r"[0-9]+", seen["ground"])[0]), grounds)
        self.assertIn("@media screen and (prefers-color-scheme: dark)", self.pages[0].read_text(encoding="utf-8"))

    def test_names_with_markup_are_shown_as_text(self):
        text = self.open("hostile")["text"]
        for words in ("<script>alert(1)</script>", "& \"quoted\"", "\\x1b[31m\\x01 \\xff", "</style>"):
            self.assertIn(words, text)

    def test_sheet_shows_images_and_unicode_captions(self):
        seen = self.open("sheet")
        self.assertEqual(seen["images"], [[2, 3], [2, 3]])
        self.assertEqual(seen["text"].count("\u732b 0.98"), 2)
        self.assertIn("label <b>", seen["text"])
        self.assertEqual(seen["marked"], 1)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
