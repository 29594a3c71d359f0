"""The doctor's page, as a strict parser and as a browser see it.

WRITE_PAGES names the program that writes the pages. Where SCREENSHOTS names a folder, pictures of
the pages go there.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

from browser import Browser, find_browser

PHONE = 360
LOOKS = [("light", 1100, "light", ""), ("dark", 1100, "dark", ""), ("phone", PHONE, "light", ""),
         ("phone-dark", PHONE, "dark", ""), ("print", 720, "light", "print")]

# Text that stands out less against what is behind it than 4.5 to 1 (WCAG AA).
FAINT = """
(() => {
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const parts = color => (color.match(/[0-9.]+/g) || []).map(Number);
  const behind = element => {
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
    const [a, b] = [parts(getComputedStyle(element).color), behind(element)].map(luminance);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(element.textContent.slice(0, 40) + ' ' + contrast.toFixed(2));
  }
  return faint;
})()
"""

# What reaches beyond the page's width.
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
        assert len(cls.pages) >= 8, cls.pages


class Structure(PageTest):
    def test_is_well_formed_and_names_nothing_to_load(self):
        for page in self.pages:
            with self.subTest(page=page.name):
                text = page.read_text(encoding="utf-8")
                for element in ElementTree.fromstring(text).iter():
                    name = element.tag.rsplit("}", 1)[-1]
                    self.assertNotIn(name, {"script", "img", "iframe", "object", "embed", "image", "use"})
                    for key, value in element.attrib.items():
                        self.assertFalse(key.startswith("on"), key)
                        if key.rsplit("}", 1)[-1] in {"src", "href", "srcset", "data", "action"}:
                            self.assertTrue(value.startswith("data:"), value)
                self.assertIsNone(re.search(r"url\(|@import", text))

    def test_shows_no_numbers_that_are_none(self):
        for page in self.pages:
            with self.subTest(page=page.name):
                shown = "".join(ElementTree.fromstring(page.read_text(encoding="utf-8")).itertext())
                self.assertIsNone(re.search(r"\b(nan|inf)\b", shown, re.IGNORECASE))
                for element in ElementTree.fromstring(page.read_text(encoding="utf-8")).iter():
                    for key in ("x", "y", "x1", "x2", "y1", "y2", "width", "height"):
                        self.assertRegex(element.get(key, "0"), r"^-?[0-9.]+%?$")


class InABrowser(PageTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        program = find_browser()
        if not program:
            if os.environ.get("CI"):
                raise AssertionError("no Chromium here: scripts/setup.sh --lint installs it")
            raise unittest.SkipTest("no Chromium here: scripts/setup.sh --lint installs it")
        profile = tempfile.TemporaryDirectory(prefix="slipstream-browser-", ignore_cleanup_errors=True)
        cls.addClassCleanup(profile.cleanup)
        cls.browser = Browser(program, profile.name)
        cls.addClassCleanup(cls.browser.close)
        if "SCREENSHOTS" in os.environ:
            cls.take_pictures(os.environ["SCREENSHOTS"])

    def page(self, name):
        return self.folder / f"{name}.html"

    def seen(self):
        return self.browser.evaluate("document.body.innerText").replace("\xa0", " ")

    def test_opens_without_a_complaint_and_asks_for_nothing(self):
        for page in self.pages:
            with self.subTest(page=page.name):
                self.browser.open(page)
                told = self.browser.of_events("Runtime.consoleAPICalled", "Runtime.exceptionThrown",
                                              "Log.entryAdded")
                self.assertEqual(told, [])
                asked = {request["request"]["url"]
                         for request in self.browser.of_events("Network.requestWillBeSent")}
                self.assertEqual({url for url in asked if url != "data:,"}, {page.resolve().as_uri()})
                self.assertEqual(self.browser.evaluate("document.compatMode"), "CSS1Compat")

    def test_the_expected_numbers_are_visible(self):
        for look, width, scheme, media in LOOKS:
            with self.subTest(look=look):
                self.browser.open(self.page("starved"), width, scheme, media)
                seen = self.seen()
                for words in ("Verdict: transforms", "Most gain first: transforms, raw reading",
                              "0.890", "[0.872, 0.908]", "3.45", "74 %", "after random_crop",
                              "1.98", "loader alone 55.0 [52.8, 57.2]", "Move the transforms from",
                              "1.63", "[1.55, 1.71]", "1.83", "--apply", "convert --data DIR",
                              "1.58", "within the intervals", "8.50", "1.20", "13.6", "10.4",
                              "SM activity", "22 %", "coarse", "94 %", "busy", "NVIDIA H200",
                              "batches differ by 8 %", "needs 16 cores"):
                    self.assertIn(words, seen)

    def test_bars_are_as_long_as_their_rates(self):
        self.browser.open(self.page("starved"))
        lengths = self.browser.evaluate(
            "[...document.querySelectorAll('.ladder li')].map(row => "
            "row.querySelector('rect.bar, rect.starved').getBoundingClientRect().width)")
        self.assertEqual(len(lengths), 10)
        self.assertAlmostEqual(lengths[-1] / lengths[0], 0.89 / 3.45, delta=0.005)
        self.assertGreater(lengths[0], 150)
        starved = self.browser.evaluate("document.querySelectorAll('.ladder rect.starved').length")
        self.assertEqual(starved, 6)
        boxes = self.browser.evaluate(
            "[...document.querySelectorAll('.lanes li:nth-child(2) rect:not(.track)')]"
            ".map(box => box.getBoundingClientRect().width)")
        self.assertEqual(len(boxes), 4)
        span = self.browser.evaluate(
            "document.querySelector('.lanes li:nth-child(2) svg').getBoundingClientRect().width")
        self.assertAlmostEqual(boxes[2] * 4 / span, 0.29 / 1.12, delta=0.01)

    def test_fits_a_phone_and_paper(self):
        for page in self.pages:
            with self.subTest(page=page.name):
                for width, media in ((PHONE, ""), (1100, ""), (720, "print")):
                    self.browser.open(page, width, media=media)
                    self.assertEqual(self.browser.evaluate(TOO_WIDE), [], f"{width} px wide {media}")
                    self.assertLessEqual(
                        self.browser.evaluate("document.documentElement.scrollWidth"), width)

    def test_is_light_or_dark_as_asked_and_light_on_paper(self):
        grounds = {}
        for look, width, scheme, media in LOOKS:
            with self.subTest(look=look):
                self.browser.open(self.page("starved"), width, scheme, media)
                self.assertEqual(self.browser.evaluate(FAINT), [])
                color = self.browser.evaluate("getComputedStyle(document.body).backgroundColor")
                grounds[look] = sum(map(int, re.findall(r"\d+", color)[:3])) / 3
        self.browser.open(self.page("starved"), 720, "dark", "print")
        color = self.browser.evaluate("getComputedStyle(document.body).backgroundColor")
        self.assertEqual(color, "rgb(255, 255, 255)")
        self.assertGreater(grounds["light"], 200)
        self.assertLess(grounds["dark"], 60)

    def test_names_are_shown_as_they_are_and_do_nothing(self):
        self.browser.open(self.page("hostile"))
        seen = self.seen()
        for words in ("<script>alert(1)</script>", "& \"quoted\"", "\\x1b[31m\\x01 \\xff", "</style>"):
            self.assertIn(words, seen)
        self.assertEqual(self.browser.evaluate("document.scripts.length"), 0)

    @classmethod
    def take_pictures(cls, folder):
        for name in ("starved", "full_speed", "failed_level", "empty", "hostile"):
            for look, width, scheme, media in LOOKS:
                cls.browser.open(cls.folder / f"{name}.html", width, scheme, media)
                cls.browser.save_screenshot(f"{folder}/{name}-{look}.png")
            cls.browser.save_pdf(f"{folder}/{name}.pdf")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
