"""Checks the links to headings, the messages of the library, and the recorded report, in the README and docs/."""

import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
JOINED = re.compile(r"\.\.\.|'|[:,] | makes | needs |unknown ")  # where the sources compose a message of several strings
PAGES = [*SOURCE.glob("*.md"), *(SOURCE / "docs").glob("*.md")]


def prose(page):
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Returns the anchors that GitHub gives to the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing_anchors():
    known = {page.resolve(): anchors(page) for page in [*PAGES, *(SOURCE / "bench" / "results").rglob("*.md")]}
    for page in PAGES:
        for link, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", prose(page)):
            target = (page.parent / link).resolve() if link else page.resolve()
            if "://" not in link and anchor not in known[target]:
                yield f"{page.name}: {link}#{anchor}"


def source_text():
    """Returns all sources, with string literals that are written in several parts joined."""
    files = [file for top in ("src", "python/slipstream") for file in (SOURCE / top).rglob("*.*")]
    text = "\n".join(file.read_text() for file in files if file.suffix in (".cpp", ".cu", ".h", ".py"))
    return re.sub(r'"\s*\+?\s*f?"', "", text)


def shown_messages():
    """Yields the messages in the tables of docs/transforms.md on refused transforms."""
    text = prose(SOURCE / "docs" / "transforms.md")
    section = text.split("\n## Why is my transform refused?\n")[1].split("\n## ")[0]
    for cell in re.findall(r"^\| ([^|]*`[^|]*) \|", section, re.MULTILINE):
        yield re.findall(r"`([^`]+)`", cell)[0]


def shown_report():
    """Returns the report that docs/doctor.md explains block by block, as one text."""
    text = (SOURCE / "docs" / "doctor.md").read_text(encoding="utf-8")
    section = text.split("\n## Read the report\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


class Pages(unittest.TestCase):
    def test_linked_headings_exist(self):
        self.assertEqual(list(missing_anchors()), [])

    def test_messages_on_refused_transforms_are_those_of_the_sources(self):
        sources, messages = source_text(), list(shown_messages())
        self.assertGreater(len(messages), 40)
        for message in messages:
            for part in JOINED.split(message):
                with self.subTest(message=message, part=part):
                    self.assertTrue(part.strip() in sources, "no source contains this text")

    def test_pages_that_sources_name_exist(self):
        files = [file for top in ("src", "include", "python/slipstream") for file in (SOURCE / top).rglob("*.*")]
        named = {page for file in files for page in re.findall(rb"docs/[\w-]+\.md", file.read_bytes())}
        self.assertGreater(len(named), 10)
        self.assertEqual([page for page in sorted(named) if not (SOURCE / page.decode()).exists()], [])

    def test_explained_report_is_the_recorded_one(self):
        recorded = SOURCE / "bench" / "results" / "cpu" / "doctor.txt"
        self.assertEqual(shown_report(), recorded.read_text(encoding="utf-8"))


unittest.main()
