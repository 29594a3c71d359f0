#!/usr/bin/env python3
"""Tests slipstream.doctor on PyTorch loops of known cause: is its verdict right, and how exact is the gain that it
predicts? It is the Python twin of bench/doctor_accuracy.cpp.

For each case, the loop is measured, then ss.doctor examines it and tries changes out. The printed code of the best
change is then executed on a new loop of the case, in whose place the name `loader` is, and the changed loop is
measured. "Predicted" is the rate that follows from the costs; "tried" is the rate that the doctor measured itself.

    PYTHONPATH=build/python python3 bench/python_doctor_accuracy.py --cases 0:10 --json build/accuracy.json

FILE is rewritten after each case. Cases that it contains from earlier runs, such as other subsets, stay in it.
"""

import argparse
import gc
import json
import os
import statistics
import time
import traceback
import warnings
from pathlib import Path

import torch

import slipstream as ss
from figures import figure
from python_doctor_cases import CASES
from slipstream._doctor.rates import iterating

SECONDS, MOST_S = 2.0, 8.0  # for measuring a loop: wanted, and at most
BLOCKS = 6


def endless(loader):
    while True:
        yield from loader


def measure_rate(loop, device):
    """Returns steps/s of a loop. Batches that were prepared before the first step are not counted."""
    workers = max(1, loop.loader.num_workers)
    prefetch = (loop.loader.prefetch_factor or 0) * workers + 2
    on_gpu = device != "cpu"
    ends, begin = [], time.perf_counter()
    with iterating(endless(loop.loader)) as batches:
        for number, batch in enumerate(batches):
            loop.step(ss._native.moved(batch, device) if on_gpu else batch)
            if on_gpu and number % 8 == 0:
                torch.cuda.synchronize()
            now = time.perf_counter()
            if number >= prefetch:
                ends.append(now)
            count = len(ends) - 1
            is_enough = count >= BLOCKS * workers and ends[-1] - ends[0] >= SECONDS
            if is_enough or (count >= workers and now - begin > MOST_S):
                break
    size = max(1, (len(ends) - 1) // BLOCKS // workers) * workers
    blocks = [ends[i : i + size + 1] for i in range(0, len(ends) - size, size)]
    rates = figure([size / (block[-1] - block[0]) for block in blocks], "steps/s")
    counted = len(blocks) * size
    return rates | {"value": counted / (ends[counted] - ends[0]), "n": counted}


def to_json(measured):
    if measured is None:
        return None
    return {name: getattr(measured, name) for name in ("value", "low", "high", "unit", "n")}


def is_covered(predicted, measured):
    low, high = measured["low"] or measured["value"], measured["high"] or measured["value"]
    return predicted["low"] <= high and low <= predicted["high"]


def changed_rate(case, code, device):
    """Executes the code of a change on a new loop of the case, and returns the rate of the changed loop."""
    loop = case.make()
    variables = {"loader": loop.loader}
    exec(code, variables)
    loop.loader = variables["loader"]
    return measure_rate(loop, device)


def right_verdicts(case, loader, share):
    """Returns the right verdicts. With worker processes, passing a batch to training takes a millisecond or two. If the
    unchanged loop reaches less than 95 % of the ceiling for this reason alone, the cause is the copy; within 3 % of this
    limit, both answers are right, as in bench/doctor_accuracy.cpp."""
    inner = loader.loader if isinstance(loader, ss.Pipeline) else loader
    has_processes = isinstance(inner, torch.utils.data.DataLoader) and inner.num_workers > 0
    if "device" not in case.verdicts or not has_processes:
        return list(case.verdicts)
    return [*(["device"] if share > 0.92 else []), *(["copy"] if share < 0.98 else [])]


def examine(case, device, budget):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop = case.make()
        before = measure_rate(loop, device)
        loader, begin = loop.loader, time.perf_counter()
        options = loop.options if isinstance(loader, ss.Pipeline | ss.DataLoader) else {"device": device} | loop.options
        report = ss.doctor(loader, loop.step, budget=budget, **options)
        seconds = time.perf_counter() - begin
        best = next((advice for advice in report.advice if advice.code), None)
        predictions = []
        if best is not None:
            predicted, measured = to_json(best.predicted), changed_rate(case, best.code, device)
            predictions.append({
                "change": best.description, "code": best.code, "predicted": predicted, "tried": to_json(best.measured),
                "measured": measured, "is_upper_bound": best.is_upper_bound,
                "error": abs(measured["value"] / predicted["value"] - 1), "is_covered": is_covered(predicted, measured),
                "tried_error": abs(measured["value"] / best.measured.value - 1)})
        again = measure_rate(loop, device)
    right = right_verdicts(case, loader, before["value"] / report.ceiling.value)
    return {
        "case": case.name, "right": right, "verdict": report.verdict, "bottlenecks": report.bottlenecks,
        "is_right": report.verdict in right, "reason": report.reason, "seconds": seconds,
        "ceiling": to_json(report.ceiling), "rate": to_json(report.rate), "rate_before": before, "rate_again": again,
        "advice": [str(advice) for advice in report.advice], "predictions": predictions,
        "report": None if report.verdict in right else report.text()}


def quantile(values, share):
    values = sorted(values)
    return values[int(share * (len(values) - 1))] if values else None


def summarize(results):
    examined = [each for each in results if "error" not in each]
    decided = [each for each in examined if each["verdict"] != "not_enough_evidence"]
    predictions = [one for each in examined for one in each["predictions"]]
    exact = [one["error"] for one in predictions if not one["is_upper_bound"]]
    bounds = [one for one in predictions if one["is_upper_bound"]]
    drifts = [abs(each["rate_again"]["value"] / each["rate_before"]["value"] - 1) for each in examined]
    return {
        "cases": len(results), "failed": len(results) - len(examined), "undecided": len(examined) - len(decided),
        "wrong": sum(not each["is_right"] for each in decided), "right": sum(each["is_right"] for each in decided),
        "predictions": len(exact), "median_error": quantile(exact, 0.5), "error_p95": quantile(exact, 0.95),
        "covered": sum(one["is_covered"] for one in predictions if not one["is_upper_bound"]),
        "upper_bounds": len(bounds),
        "upper_bounds_exceeded": sum(one["measured"]["value"] > 1.05 * one["predicted"]["high"] for one in bounds),
        "tried_median_error": quantile([one["tried_error"] for one in predictions], 0.5),
        "tried_error_p95": quantile([one["tried_error"] for one in predictions], 0.95),
        "median_drift": statistics.median(drifts) if drifts else None, "drift_p95": quantile(drifts, 0.95)}


def row(result):
    if "error" in result:
        return f"{result['case']:52} FAILED: {result['error'].splitlines()[-1]}"
    mark = "right" if result["is_right"] else "undecided" if result["verdict"] == "not_enough_evidence" else "WRONG"
    text = f"{result['case']:52} {'/'.join(result['right']):16} {result['verdict']:20} {mark:9}"
    for one in result["predictions"]:
        text += (f" {result['rate']['value']:6.1f} -> {one['predicted']['value']:6.1f} predicted "
                 f"{one['tried']['value']:6.1f} tried {one['measured']['value']:6.1f} measured"
                 f"{' (upper bound)' if one['is_upper_bound'] else ''}: {one['change'][:40]}")
    return text


def parse_range(text):
    first, _, last = text.partition(":")
    return slice(int(first or 0), int(last) if last else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--budget", type=float, default=10, help="seconds for each examination")
    add("--cases", default=":", help="FIRST:LAST, from 0, without the last")
    add("--only", default="", help="cases whose names contain this")
    add("--json", help="file for the results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    on_gpu = options.device != "cpu"
    cases = [each for each in CASES if on_gpu or not each.needs_gpu][parse_range(options.cases)]
    file = Path(options.json) if options.json else None
    known = json.loads(file.read_text())["cases"] if file is not None and file.exists() else []
    results = {each["case"]: each for each in known}
    for case in (each for each in cases if options.only in each.name):
        try:
            results[case.name] = examine(case, options.device, options.budget)
        except Exception:
            results[case.name] = {"case": case.name, "error": traceback.format_exc()}
        gc.collect()  # ends worker processes
        print(row(results[case.name]), flush=True)
        report = {"device": torch.cuda.get_device_name() if on_gpu else "cpu", "torch": torch.__version__,
                  "slipstream": ss.__version__, "cores": len(os.sched_getaffinity(0)), "budget_s": options.budget,
                  "summary": summarize(list(results.values())), "cases": list(results.values())}
        if file is not None:
            file.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(summarize(list(results.values())), indent=1))


if __name__ == "__main__":
    main()
