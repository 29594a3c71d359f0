"""slipstream.doctor changes none of the user's objects: data sets, models, files."""

import contextlib
import gc
import threading
import types
import warnings

import numpy as np
from pipelines import Compose, Images, double
import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, get_worker_info

import slipstream as ss
from slipstream._doctor.copies import Copier

SIZE, COUNT = 64, 48


def run_doctor(loader, step=lambda batch: None, **options):
    return ss.doctor(loader, step, device="cpu", budget=0.3, **options)


@pytest.fixture
def records(tmp_path):
    path = tmp_path / "records"
    path.write_bytes(b"".join(bytes([i]) * SIZE for i in range(COUNT)))
    return path


class Records(Dataset):
    """Opens its file when the first sample is read."""

    def __init__(self, path):
        self.path, self.file = path, None

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        if self.file is None:
            self.file = open(self.path, "rb", buffering=0)
        self.file.seek(index * SIZE)
        return torch.frombuffer(bytearray(self.file.read(SIZE)), dtype=torch.uint8)


class Around(Dataset):
    def __init__(self, inner, transform=None):
        self.inner, self.transform = inner, transform

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, index):
        return self.inner[index] if self.transform is None else self.transform(self.inner[index])


AROUND = {
    "alone": lambda inner: inner,
    "Subset": lambda inner: Subset(inner, range(COUNT)),
    "wrapper with a transform": lambda inner: Around(Subset(inner, range(COUNT)), double),
    "object": Around,
    "ConcatDataset": lambda inner: ConcatDataset([inner]),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("around", AROUND)
def test_lazily_opened_file_of_data_set_stays_closed(records, around, workers):
    inner = Records(records)
    report = run_doctor(DataLoader(AROUND[around](inner), 4, num_workers=workers))
    assert inner.file is None and report.rate.n > 0


class OnlyInWorkers(Images):
    """A data set that refuses to be read in the main process."""

    def __getitem__(self, index):
        assert get_worker_info() is not None
        return super().__getitem__(index)

    def __len__(self):
        return 64


def in_worker(x):
    assert get_worker_info() is not None
    return x + torch.rand_like(x)


def collate_in_worker(samples):
    assert get_worker_info() is not None
    return torch.stack([image for image, _ in samples])


class OnlyInWorkersAsStream(IterableDataset):
    def __init__(self, transform):
        self.transform = transform

    def __iter__(self):
        assert get_worker_info() is not None
        return (self.transform(torch.ones(3, 8, 8)) for _ in range(64))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_samples_are_read_only_in_workers(context):
    dataset = OnlyInWorkers(Compose([in_worker, double]))
    loader = DataLoader(dataset, 4, True, num_workers=1, collate_fn=collate_in_worker, multiprocessing_context=context)
    report = run_doctor(loader)
    assert report.rate.n > 0 and "after in_worker" in report.text()


def test_iterable_data_set_is_read_only_in_workers():
    report = run_doctor(DataLoader(OnlyInWorkersAsStream(Compose([in_worker])), 4, num_workers=2))
    assert report.rate.n > 0 and "raw sample" in report.text()


def test_errors_of_samples_in_workers_are_raised():
    class Broken(Images):
        def __getitem__(self, index):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        run_doctor(DataLoader(Broken(), 4, num_workers=1))


class Local:
    """An object that cannot be pickled."""

    def __reduce__(self):
        raise TypeError("a local object")


class OfLocals(Images):
    def __getitem__(self, index):
        return self.transform(Local())


def test_samples_that_cannot_be_pickled_are_not_cached():
    report = run_doctor(DataLoader(OfLocals(Compose([lambda x: torch.ones(2)])), 4, num_workers=1))
    assert report.rate.n > 0 and "cannot be sent by worker processes: a local object" in str(report._report.json())


class Tables(Images):
    """A data set that records each read in all of its attributes."""

    def __init__(self):
        super().__init__(double)
        self.seen, self.counts, self.flags = [], {"all": 0}, torch.zeros(64)
        self.array, self.inner = np.zeros(64), Around([[0] * 64])
        self.lock = threading.Lock()

    def __getitem__(self, index):
        with self.lock:
            self.seen.append(index)
            self.counts["all"] += 1
            self.flags[index] = self.array[index] = self.inner.inner[0][index] = 1
        return super().__getitem__(index)


def test_data_set_attributes_are_unchanged_without_workers():
    tables = Tables()
    report = run_doctor(DataLoader(Subset(tables, range(64)), 4))
    assert tables.seen == [] and tables.counts == {"all": 0} and tables.inner.inner == [[0] * 64]
    assert not tables.flags.any() and not tables.array.any()
    assert report.rate.n > 0 and "could not be copied" not in report.text()


def test_worker_writes_to_shared_tensors_are_undone():
    tables = Tables()
    tables.flags.share_memory_()
    tables.lock = contextlib.nullcontext()
    memory = tables.flags.data_ptr()
    run_doctor(DataLoader(tables, 4, num_workers=1))
    assert not tables.flags.any() and tables.flags.data_ptr() == memory


CACHE = {}


class Caching(Images):
    def __init__(self):
        super().__init__(double)
        self.known = Local()

    def __getitem__(self, index):
        CACHE[index] = index
        return super().__getitem__(index)


def test_attributes_not_copied_are_named_in_warning_and_report():
    CACHE.clear()
    with pytest.warns(RuntimeWarning, match=r"not restored: 'CACHE' \(dict, 0 to"):
        report = run_doctor(DataLoader(Caching(), 4))
    assert ("the doctor uses these objects of the loader itself, because they could not be copied: 'dataset.known' "
            "(Local)") in report.text()
    assert "'CACHE' (dict, " in report.text()


def test_position_of_open_file_is_restored(records):
    dataset = Records(records)
    dataset[3]
    position = dataset.file.tell()
    run_doctor(DataLoader(dataset, 4))
    assert dataset.file.tell() == position


def test_copier_keeps_references_and_shares_large_data():
    table, names = torch.zeros(100), [f"{i}.jpg" for i in range(1000)]
    fixed, arrays = np.zeros(4), [np.zeros(64) for _ in range(1000)]
    fixed.flags.writeable = False
    dataset = Around({"table": table, "names": names, "fixed": fixed, "arrays": arrays})
    copier = Copier(most_bytes=50_000)
    copied, sampler = copier.copied("dataset", dataset), copier.copied("sampler", [dataset])
    assert sampler[0] is copied and copied is not dataset
    inner = copied.inner
    assert inner["table"] is not table and inner["names"] == names and inner["names"] is not names
    assert inner["fixed"] is fixed and inner["arrays"] is arrays
    assert [name for name, _ in copier.not_copied] == ["dataset.inner['arrays']"]
    assert Copier(shared=[dataset]).copied("sampler", [dataset])[0] is dataset


class OfIterator(IterableDataset):
    """A data set that can be iterated over only once."""

    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return self.samples


def once():
    for i in range(400):
        yield torch.full((2,), float(i))


def test_copier_keeps_memoized_objects_alive():
    copier = Copier()
    for number in range(3):
        copier.copied(f"data set {number}", types.SimpleNamespace(number=number))
    kept = {address for address, each in copier._memo.items() if type(each) is list}  # deepcopy() stores such lists
    assert kept and {id(each) for each in gc.get_objects()} >= kept


def test_doctor_does_not_consume_iterator_of_data_set():
    samples = iter([torch.ones(2)] * 64)
    assert run_doctor(DataLoader(OfIterator(samples), 4)).ceiling.n > 0
    assert len(list(samples)) == 64
    samples = once()
    with pytest.raises(ss.Refused, match="dataset.samples, generator, cannot be copied"):
        run_doctor(DataLoader(OfIterator(samples), 4))
    assert next(samples)[0] == 0
    samples = once()
    assert run_doctor(DataLoader(OfIterator(samples), 4, num_workers=1)).ceiling.n > 0
    assert next(samples)[0] == 0


def test_exhausted_stream_is_refused():
    samples = iter([torch.ones(2)] * 3)
    list(samples)
    with pytest.raises(ss.Refused, match="gives no batch"):
        run_doctor(DataLoader(OfIterator(samples), 2))


class Emptied(IterableDataset):
    def __init__(self):
        self.rest = [torch.ones(2)] * 3

    def __iter__(self):
        while self.rest:
            yield self.rest.pop()


def test_stream_that_cannot_restart_is_refused():
    emptied = Emptied()
    with pytest.raises(ss.Refused, match=r"no sample in a second iteration.*__iter__\(\) must start again"):
        run_doctor(DataLoader(emptied, 1))
    assert len(emptied.rest) == 3


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(192, 4)
        self.register_buffer("usage", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.usage += 1
        return self.layer(x.flatten(1))


def training():
    model = Counting()
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch):
        model.eval()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()

    return model, optimizer, step


def test_model_and_optimizer_are_restored_without_state_argument():
    model, optimizer, step = training()
    before = [each.clone() for each in model.parameters()]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_doctor(DataLoader(Images(), 4), step)
    assert all(map(torch.equal, before, model.parameters())) and not optimizer.state and model.usage == 0
    assert model.training and model.layer.weight.grad is None


def test_model_is_restored_after_error_in_step():
    model, optimizer, step = training()
    before = [each.clone() for each in model.parameters()]
    calls = []

    def fails(batch):
        step(batch)
        calls.append(len(batch))
        if len(calls) == 2:
            raise ValueError("in the second step")

    with pytest.warns(RuntimeWarning, match=r"'calls' \(list, 0 to 2 elements\)"):
        with pytest.raises(ValueError, match="in the second step"):
            run_doctor(DataLoader(Images(), 4), fails)
    assert all(map(torch.equal, before, model.parameters())) and not optimizer.state and model.training


class NotLoaded:
    STEPS = []

    def state_dict(self):
        return {"steps": len(self.STEPS)}

    def load_state_dict(self, state):
        raise RuntimeError("cannot be loaded")


def test_state_that_cannot_be_restored_is_named_in_warning():
    model, optimizer, step = training()
    before = [each.clone() for each in model.parameters()]

    def steps(batch):
        step(batch)
        NotLoaded.STEPS.append(1)

    with pytest.warns(RuntimeWarning, match=r"restoring failed: 'state\[0\]' \(RuntimeError: cannot be loaded\)"):
        report = run_doctor(DataLoader(Images(), 4), steps, state=[NotLoaded(), model])
    assert all(map(torch.equal, before, model.parameters())) and not optimizer.state
    assert "restoring failed" in report.text()
