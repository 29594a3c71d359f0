"""Compares every #include, and every import of the Python package, with docs/architecture.md."""

import ast
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = SOURCE / "python" / "slipstream"
TEXT = (SOURCE / "docs" / "architecture.md").read_text(encoding="utf-8")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
EXCEPTIONS = {("src/bindings/module.cpp", "slipstream/cli/cli.h")}
VERSION = re.compile(r"#\s*(?:el)?if.*TORCH_VERSION|getDtypeNames|(?:shared|intrusive)_ptr<(?:torch::autograd::)?Node>")
TORCH, CUDA = r"(torch|ATen|c10)/", r"(cu|nv)[a-zA-Z_]*\.h$"


def reachable_modules():
    """Returns the modules whose headers each module may include."""
    arrows = dict(re.findall(r"^  ([a-z]+) --> ([a-z& ]+)$", TEXT, re.MULTILINE))
    reached = {"core": {"core"}}
    for module in reversed(arrows):  # the drawing begins with the module that depends on most others
        reached[module] = {module}.union(*(reached[other] for other in arrows[module].split(" & ")))
    return reached


def refused_libraries():
    """Returns a pattern for each module: the headers of libraries that it does not need."""
    needs = dict(re.findall(r"^\| ([a-z]+) \| ?(Torch|CUDA|) \|", TEXT, re.MULTILINE))
    patterns = {"Torch": "$^", "CUDA": TORCH, "": f"{TORCH}|{CUDA}"}
    return {module: patterns[library] for module, library in needs.items()}


def include_offenses():
    reached, refused = reachable_modules(), refused_libraries()
    public = "(" + "|".join([*reached, "nlohmann", "CLI"]) + ")/"
    for file in [file for top in ("src", "include/slipstream") for file in (SOURCE / top).rglob("*.*")]:
        folder, is_public = file.parts[len(SOURCE.parts) + 1:][:2], "include" in file.parts
        module = folder[1] if is_public else folder[0]
        if module not in reached:
            continue  # include/slipstream/slipstream.h includes everything
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            other = re.sub("^slipstream/", "", name).split("/")[0]
            if (str(file.relative_to(SOURCE)), name) in EXCEPTIONS:
                continue
            if other in reached and other not in reached[module] or re.match(refused[module], name):
                yield f"{file}: module {module} must not include {name}"
            if is_public and re.match(public, name):
                yield f"{file}: {name} is not a public header"


def version_offenses():
    """Sources that depend on the version of PyTorch, but for the one header that deals with it."""
    for file in [file for top in ("src", "include", "bench", "tests", "examples") for file in (SOURCE / top).rglob("*.*")]:
        if file.suffix in (".h", ".cpp", ".cu") and file.name != "torch_version.h":
            for name in VERSION.findall(file.read_text(encoding="utf-8")):
                yield f"{file}: {name} belongs into src/engine/torch_version.h"


def imports(name, path):
    """Returns the modules of the package that this one imports, also inside functions and for type checkers."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[:len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            for alias in node.names:
                yield ".".join([*base, alias.name])
                if node.module:
                    yield ".".join(base)


def import_cycles():
    paths = {".".join(("slipstream", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
             for path in PACKAGE.rglob("*.py")}
    graph = {name: {each for each in imports(name, path) if each in paths} for name, path in paths.items()}

    def reach(start):
        found, waiting = set(), [start]
        while waiting:
            for other in graph[waiting.pop()] - found:
                found.add(other)
                waiting.append(other)
        return found

    return [name for name in graph if name in reach(name)]


class Modules(unittest.TestCase):
    def test_diagram_and_table_list_every_module(self):
        folders = {path.parent.name for path in (SOURCE / "src").glob("*/CMakeLists.txt")}
        self.assertEqual(set(reachable_modules()), folders)
        self.assertEqual(set(refused_libraries()), folders)

    def test_includes_follow_the_diagram(self):
        self.assertEqual(list(include_offenses()), [])

    def test_only_one_header_depends_on_version_of_torch(self):
        self.assertEqual(list(version_offenses()), [])

    def test_python_package_has_no_import_cycles(self):
        self.assertEqual(import_cycles(), [])


unittest.main()
