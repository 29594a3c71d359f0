"""Holds every #include to the table of rooms in docs/architecture.md."""

import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def rooms():
    text = (SOURCE / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z]+) \| [^|]+ \| ([a-z, ]*)\|$", text, re.MULTILINE)
    return {room: re.findall("[a-z]+", knows) for room, knows in rows if room != "room"}


def reach(room, table):
    return {room}.union(*(reach(known, table) for known in table[room]))


def offenses(table):
    for top in ("src", "include/slipstream"):
        for file in sorted((SOURCE / top).rglob("*.*")):
            names = re.findall(r'^ *# *include "(.+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
            room = file.relative_to(SOURCE / top).parts[0]
            for name in names if room in table else []:
                is_public = name.startswith("slipstream/")
                if top != "src" and not is_public:
                    yield f"{file}: {name} is inside the library"
                if name.removeprefix("slipstream/").split("/")[0] not in reach(room, table):
                    yield f"{file}: room {room} does not know {name}"


class Rooms(unittest.TestCase):
    def test_the_table_names_every_room(self):
        self.assertEqual(set(rooms()), {path.parent.name for path in (SOURCE / "src").glob("*/CMakeLists.txt")})

    def test_includes_follow_the_table(self):
        self.assertEqual(list(offenses(rooms())), [])

    def test_there_are_few_public_headers(self):
        headers = list((SOURCE / "include").rglob("*.h"))
        self.assertLessEqual(len(headers), 50, "put what belongs together into one header, and "
                             "what users do not need into src")


unittest.main()
