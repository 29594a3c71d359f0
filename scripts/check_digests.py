#!/usr/bin/env python3
"""Repeats the runs of this program that bench/results/cpu/digests.json records, and compares the digests.

    scripts/check_digests.py build/slipstream

Digests depend on the kind of CPU, because the order of PyTorch's sums does. Exits with 1 if a digest differs; otherwise
the file is updated with the revision that was compared.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

RECORD = pathlib.Path(__file__).resolve().parents[1] / "bench" / "results" / "cpu" / "digests.json"


def compute_digest(program, arguments, folder):
    subprocess.run([program, *arguments.split(), "--json", "run.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    report = json.loads((folder / "run.json").read_text())
    return report["digest"], report["environment"]["revision"]


def main():
    program, record = pathlib.Path(sys.argv[1]).resolve(), json.loads(RECORD.read_text())
    different = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "after.json").write_text(json.dumps(record["after.json"]))
        subprocess.run([program, *record["scenes"].split(), "--out", "scenes"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for run in record["runs"]:
            digest, record["after_revision"] = compute_digest(program, run["after"]["arguments"], folder)
            is_equal = digest == run["before"]["digest"]
            different += not is_equal
            print(f"{'equal' if is_equal else 'DIFFERENT'}  {digest}  {run['run']}, {run['plan']}")
    if different:
        sys.exit(1)
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


main()
