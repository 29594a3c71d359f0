#!/usr/bin/env python3
"""Runs clang-tidy on the sources in src/ that changed since it last passed on them.

    tidy.py BUILD_DIR CHECKS

A source is unchanged if its text with all its includes and comments, its compile command, .clang-tidy and clang-tidy
itself are the same. Records of what passed are kept in ~/.cache/slipstream/tidy (SLIPSTREAM_CACHE names another
folder), so a new clone profits from them. Exits with 1 if clang-tidy reports anything.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
BUILD, CHECKS = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
CACHE = pathlib.Path(os.environ.get("SLIPSTREAM_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "slipstream")
TIDY = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
CONFIGURATION = (SOURCE / ".clang-tidy").read_bytes()


def preprocess_command(entry):
    """The compile command without its output, and without a compiler launcher such as ccache."""
    words = shlex.split(entry["command"])
    words = words[next(at for at, word in enumerate(words) if "clang" in pathlib.Path(word).name):]
    output = words.index("-o")
    return [word for word in words[:output] + words[output + 2:] if word != "-c"] + ["-E", "-C"]


def fingerprint(entry):
    command = preprocess_command(entry)
    text = subprocess.run(command, cwd=entry["directory"], capture_output=True, check=True).stdout
    digest = hashlib.sha256()
    for part in (TIDY, CONFIGURATION, CHECKS.encode(), " ".join(command).encode(), text):
        digest.update(hashlib.sha256(part.replace(str(SOURCE).encode(), b"")).digest())
    return digest.hexdigest()


def check(entry):
    """Returns clang-tidy's report, or None if there is nothing to report."""
    passed = CACHE / "tidy" / fingerprint(entry)
    if passed.exists():
        passed.touch()
        return None
    done = subprocess.run(["clang-tidy", "-quiet", "-p", BUILD, f"-checks={CHECKS}", entry["file"]],
                          capture_output=True, text=True)
    if done.returncode != 0:
        return done.stdout + done.stderr
    passed.parent.mkdir(parents=True, exist_ok=True)
    passed.touch()
    return None


def is_ours(entry):
    file = pathlib.Path(entry["file"])
    return SOURCE / "src" in file.parents or BUILD / "src" in file.parents


def main():
    entries = [entry for entry in json.loads((BUILD / "compile_commands.json").read_text()) if is_ours(entry)]
    assert entries, f"{BUILD} compiles nothing in src/"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = [report for report in pool.map(check, entries) if report]
    print(*reports, sep="\n")
    print(f"clang-tidy: {len(entries)} sources, {len(reports)} with findings")
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
