"""The records of a feature cache on disk."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
import torch

from slipstream import Refused, _native

FIELDS = [{"name": "x", "dtype": "bfloat16", "shape": [3, 4]}, {"name": "label", "dtype": "int64", "shape": []}]
KEY = {"weights": "0123", "transforms": "Resize(32)", "versions": 2}


def open_store(folder, key=None, fields=None, budget=None):
    return _native.FeatureStore(os.fsencode(folder), json.dumps(key or KEY), json.dumps(fields or FIELDS), budget)


def make_batch(first, count, version=0):
    """Returns entries, indices and records. The label is the sample's index, all features are that number, too."""
    samples = torch.arange(first, first + count)
    entries = torch.stack([samples * 7919 - 3, torch.full_like(samples, version)], dim=1)
    features = samples.to(torch.bfloat16)[:, None].expand(count, 12).contiguous()
    records = torch.cat([features.view(torch.uint8), samples[:, None].contiguous().view(torch.uint8)], dim=1)
    return entries, samples, records.contiguous()


def read_all(store, entries, threads=2):
    into = torch.empty(len(entries), store.record_bytes, dtype=torch.uint8)
    good = store.read(store.find(entries), into, threads)
    return into, good


def test_records_are_read_as_they_were_written(tmp_path):
    store = open_store(tmp_path / "features")
    entries, samples, records = make_batch(0, 10)
    assert store.record_bytes == 32
    assert store.find(entries).tolist() == [-1] * 10
    assert store.write(entries, samples, records) == 10
    into, good = read_all(store, entries)
    assert good.dtype == torch.bool and good.all()
    assert torch.equal(into, records)
    stats = store.stats()
    assert stats.pop("bytes") > 10 * 32
    assert stats == {"records": 10, "hits": 10, "misses": 10, "damaged": 0}


def test_records_are_read_into_pinned_memory(tmp_path, device):
    store = open_store(tmp_path / "features")
    entries, samples, records = make_batch(0, 10)
    store.write(entries, samples, records)
    into = torch.empty(10, 32, dtype=torch.uint8, pin_memory=device == "cuda")
    assert store.read(store.find(entries), into, 4).all()
    assert torch.equal(into.to(device).cpu(), records)


def test_two_stores_of_one_key_share_records(tmp_path):
    one, two = open_store(tmp_path), open_store(tmp_path)
    one.write(*make_batch(0, 4))
    two.write(*make_batch(2, 4))
    assert one.refresh() == 2 and two.refresh() == 0
    for store in (one, two):
        into, good = read_all(store, make_batch(0, 6)[0])
        assert good.all() and torch.equal(into, make_batch(0, 6)[2])


def test_budget_ends_filling(tmp_path):
    store = open_store(tmp_path, budget=2000)
    assert 0 < sum(store.write(*make_batch(10 * i, 10)) for i in range(10)) < 100
    assert "budget" in store.filling_ended()
    assert store.write(*make_batch(500, 1)) == 0


@pytest.mark.parametrize("name", ["x", "\udcff"])
def test_folder_below_file_ends_filling(tmp_path, name):
    (tmp_path / name).write_text("x")
    store = open_store(tmp_path / name / "features")
    assert store.filling_ended().startswith("cannot create")
    assert store.write(*make_batch(0, 1)) == 0


def test_threads_read_while_another_writes(tmp_path):
    store = open_store(tmp_path)
    entries, samples, records = make_batch(0, 64)
    store.write(entries, samples, records)
    wrong = []

    def read():
        for _ in range(50):
            into, good = read_all(store, entries)
            if not (good.all() and torch.equal(into, records)):
                wrong.append(into)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(1, 20):
        store.write(*make_batch(64 * i, 64))
    for thread in threads:
        thread.join()
    assert not wrong
    assert store.stats()["records"] == 64 * 20


def test_wrong_tensors_are_refused(tmp_path):
    store = open_store(tmp_path)
    entries, samples, records = make_batch(0, 4)
    for call, name in (
        (lambda: store.find(entries.int()), "the entries"),
        (lambda: store.find(entries[:, :1]), "the entries"),
        (lambda: store.find(entries[0, 0]), "the entries"),
        (lambda: store.write(entries, samples[:3], records), "the indices of samples"),
        (lambda: store.write(entries, samples, records[:, :31].contiguous()), "the records"),
        (lambda: store.write(entries, samples, records.t().contiguous().t()), "the records"),
        (lambda: store.read(samples, records[:2], 1), "the records"),
        (lambda: store.read(samples.float(), records, 1), "the numbers"),
    ):
        with pytest.raises(Refused, match=f"{name} must be a contiguous"):
            call()
    with pytest.raises(Refused, match="no record 0"):
        store.read(torch.tensor([0]), records[:1], 1)


def test_wrong_key_fields_and_folder_are_refused(tmp_path):
    with pytest.raises(Refused, match="key of the features"):
        _native.FeatureStore(os.fsencode(tmp_path), "resnet", json.dumps(FIELDS), None)
    with pytest.raises(Refused, match="complex64"):
        open_store(tmp_path, fields=[{"name": "x", "dtype": "complex64", "shape": [1]}])
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused, match="not a folder"):
        open_store(tmp_path / "file")
    store = open_store(tmp_path)
    store.close()
    with pytest.raises(Refused, match="closed"):
        store.find(make_batch(0, 1)[0])


WRITER = """
import sys
from feature_store_test import make_batch, open_store
store = open_store(sys.argv[1])
for i in range(10**6):
    store.write(*make_batch(8 * i, 8))
    print(i, flush=True)
"""


def test_killed_writer_loses_at_most_its_last_batch(tmp_path):
    writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE, text=True,
                              cwd=os.path.dirname(__file__))
    for _ in range(20):
        writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    finished = 20 + len(writer.communicate()[0].split())
    store = open_store(tmp_path)
    records = store.stats()["records"]
    assert 8 * finished <= records <= 8 * (finished + 1)
    into, good = read_all(store, make_batch(0, records)[0])
    assert good.all() and torch.equal(into, make_batch(0, records)[2])
