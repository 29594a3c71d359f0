#!/usr/bin/env python3
"""Measures how long `make build` takes in a fresh clone of HEAD, without a compiler cache, when PyTorch is installed.

    scripts/build_time.py OUT.json
"""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]


def compile_seconds(log):
    """Returns the total time of all commands, which run in parallel, and the ten longest."""
    rows = [line.split("\t") for line in log.read_text().splitlines() if not line.startswith("#")]
    took = {row[3]: (int(row[1]) - int(row[0])) / 1000 for row in rows}
    longest = sorted(took.items(), key=lambda item: -item[1])[:10]
    return sum(took.values()), dict(longest)


def main():
    out = pathlib.Path(sys.argv[1])
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", SOURCE, clone], check=True)
        subprocess.run([clone / "scripts" / "setup.sh"], check=True)
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["make", "-C", clone, "build"], check=True, env=environment)
        wall_s = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        compile_s, longest_s = compile_seconds(clone / "build" / ".ninja_log")
    revision = subprocess.run(["git", "-C", SOURCE, "rev-parse", "HEAD"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout.strip()
    out.write_text(json.dumps({"revision": revision, "cores": len(os.sched_getaffinity(0)),
                               "load_before": os.getloadavg()[0], "wall_s": round(wall_s, 1),
                               "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
                               "compile_s": round(compile_s, 1), "longest_s": longest_s}, indent=2) + "\n")


main()
