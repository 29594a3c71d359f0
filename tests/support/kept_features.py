"""A store of features in memory with the methods of slipstream._native.FeatureStore, which can damage records and end
filling. The features of a folder and a key stay until the test ends."""

import json

import torch


class KeptFeatures:
    """Takes the place of slipstream._native.FeatureStore."""

    folders = {}
    reason = ""
    writes = 0

    def __init__(self, folder, key, description, budget):
        sizes = [torch.empty(each["shape"], dtype=getattr(torch, each["dtype"])).nbytes
                 for each in json.loads(description)]
        self.record_bytes, self.budget = sum(sizes), budget
        self.records = self.folders.setdefault((folder, key), {})
        self.numbers = self.folders.setdefault((folder, key, "numbers"), [])
        self.counts = {"hits": 0, "misses": 0, "damaged": 0}

    def find(self, entries):
        keys = [tuple(each) for each in entries.tolist()]
        self.counts["hits"] += sum(key in self.records for key in keys)
        self.counts["misses"] += sum(key not in self.records for key in keys)
        return torch.tensor([self.numbers.index(key) if key in self.records else -1 for key in keys])

    def read(self, numbers, into, threads):
        assert into.shape == (len(numbers), self.record_bytes) and into.dtype == torch.uint8
        good = []
        for row, number in enumerate(numbers.tolist()):
            record = self.records.get(self.numbers[number])
            good.append(record is not None)
            if record is None:
                self.counts["damaged"] += 1
                self.records.pop(self.numbers[number], None)
            else:
                into[row] = record
        return torch.tensor(good)

    def write(self, entries, samples, records):
        assert records.shape == (len(entries), self.record_bytes) and records.is_contiguous()
        assert len(samples) == len(entries) and entries.dtype == samples.dtype == torch.int64
        count = 0
        for key, record in zip(entries.tolist(), records, strict=True):
            if tuple(key) not in self.records and not self.filling_ended():
                self.numbers.append(tuple(key))
                self.records[tuple(key)] = record.clone()
                count += 1
        return count

    def refresh(self):
        return 0

    def filling_ended(self):
        if self.budget is not None and len(self.records) * self.record_bytes >= self.budget:
            return "the budget is used up"
        return type(self).reason

    def stats(self):
        return {"records": len(self.records), "bytes": len(self.records) * self.record_bytes, **self.counts}

    def close(self):
        pass
