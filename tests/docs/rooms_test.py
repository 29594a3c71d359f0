"""Holds every #include to the picture of rooms in docs/architecture.md."""

import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
LIBRARIES = {"train": r"(torch|ATen|c10)/", "cuda": r"(cu|nv)[a-zA-Z_]*\.h$"}


def rooms():
    """What each room reaches: itself, and the rooms that arrows lead to from it."""
    text = (SOURCE / "docs" / "architecture.md").read_text(encoding="utf-8")
    arrows = dict(re.findall(r"^  ([a-z]+) --> ([a-z& ]+)$", text, re.MULTILINE))
    table = {"core": {"core"}}
    for room in reversed(arrows):  # the picture begins with the room that reaches most
        table[room] = {room}.union(*(table[known] for known in arrows[room].split(" & ")))
    return table


def is_known(reached, name):
    room = re.sub("^slipstream/", "", name).split("/")[0]
    if "/" in name and (room in rooms() or name.startswith("slipstream/")):
        return room in reached
    return all(known in reached or not re.match(names, name) for known, names in LIBRARIES.items())


def offenses():
    for file in [file for top in ("src", "include/slipstream") for file in (SOURCE / top).rglob("*.*")]:
        room, is_public = file.parts[len(SOURCE.parts) + 1:][:2], "include" in file.parts
        reached = rooms().get(room[1] if is_public else room[0], rooms()["cli"])
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            if not is_known(reached, name):
                yield f"{file}: its room does not know {name}"
            if is_public and re.match("(" + "|".join([*rooms(), "nlohmann", "CLI"]) + ")/", name):
                yield f"{file}: {name} is not for users"


class Rooms(unittest.TestCase):
    def test_the_picture_has_every_room(self):
        self.assertEqual(set(rooms()), {path.parent.name for path in (SOURCE / "src").glob("*/CMakeLists.txt")})

    def test_includes_follow_the_picture(self):
        self.assertEqual(list(offenses()), [])

    def test_there_are_few_public_headers(self):
        headers = list((SOURCE / "include").rglob("*.h"))
        self.assertLessEqual(len(headers), 50, "put what belongs together into one header, and "
                             "what users do not need into src")


unittest.main()
