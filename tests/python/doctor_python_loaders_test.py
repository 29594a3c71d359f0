"""slipstream.doctor examines slipstream.DataLoaders whose data set, transforms or batches need Python."""

import json
import multiprocessing
import os
import re
import time

from pipelines import Compose, Images, Stream, double, slow
import pytest
import torch
from torch import nn
from torch.utils.data import SequentialSampler, default_collate, get_worker_info

import slipstream as ss
from slipstream._doctor import views
from slipstream._doctor.processes import CostFile, ProcessLoaders

T = ss.transforms
CHAIN = T.Compose([T.CenterCrop(6), double, T.RandomHorizontalFlip(0.5)])
MODEL = nn.LazyLinear(4)
MODEL(torch.zeros(1, 108))


def train(batch):
    MODEL(batch[0].float().flatten(1)).sum().backward()


def collate(samples):
    return default_collate(samples)


def examined(loader, step=train, budget=1, **options):
    before = multiprocessing.active_children()
    try:
        return ss.doctor(loader, step, budget=budget, state=[MODEL], **options)
    finally:
        assert set(multiprocessing.active_children()) <= set(before)


def written(report, folder):
    report.to_json(folder / "report.json")
    return json.loads((folder / "report.json").read_text())


@pytest.fixture(autouse=True)
def on_cpu():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    MODEL.cpu()
    yield
    torch.set_num_threads(threads)


def own_transform(image):
    return image


LEVELS = ["device batch", "processed sample"]


@pytest.mark.parametrize(
    ("make", "levels", "costs"),
    [
        (
            lambda **more: ss.DataLoader(ss.PythonDataset(Images(), CHAIN), 4, num_workers=2, **more),
            [*LEVELS, "raw sample", "nothing cached"],
            ["data set", "center_crop_0", "double_1", "random_horizontal_flip_1", "transfer", "collate"],
        ),
        (
            lambda **more: ss.DataLoader(Images(Compose([double, own_transform])), 4, True, num_workers=1, **more),
            [*LEVELS, "nothing cached"],
            ["data set", "double", "own_transform", "transfer", "collate"],
        ),
        (
            lambda **more: ss.DataLoader(ss.PythonDataset(Images(), CHAIN), 4, num_workers=0, **more),
            [*LEVELS, "after double", "after center_crop_0", "raw sample", "nothing cached"],
            ["data set", "center_crop_0", "double", "random_horizontal_flip_1", "collate"],
        ),
        (
            lambda **more: ss.DataLoader(Images(Compose([double])), 4, num_workers=1, collate_fn=collate, **more),
            ["device batch", "collated batch", "processed sample", "raw sample", "nothing cached"],
            ["data set", "double", "collate"],
        ),
        (
            lambda **more: ss.DataLoader(Stream(Images(Compose([double]))), 4, **more),
            [*LEVELS, "raw sample", "nothing cached"],
            ["data set", "double", "collate"],
        ),
    ],
    ids=["PythonDataset", "own transforms", "no workers", "collate_fn", "iterable"],
)
def test_report_has_levels_and_costs_of_python_code(make, levels, costs, tmp_path):
    before = torch.get_rng_state()
    report = examined(make(), lambda batch: batch[0].float().sum(), budget=4)
    saved = written(report, tmp_path)
    assert [level["name"] for level in saved["levels"]] == levels
    assert [cost["name"] for cost in saved["costs"]] == costs
    assert report.ceiling.n > 0 and report.rate.n > 0
    assert torch.equal(torch.get_rng_state(), before)
    for advice in report.advice:
        assert re.search(r"slipstream\.|in the code of|use another machine", advice.action), advice


def test_batches_have_the_same_form_at_all_levels(tmp_path):
    shapes = set()

    def step(batch):
        shapes.add((type(batch), batch[0].shape, batch[0].dtype, batch[1].dtype))

    report = examined(ss.DataLoader(ss.PythonDataset(Images(), CHAIN), 4, num_workers=1), step, budget=4)
    assert report.rate.n > 0
    assert shapes == {(list, torch.Size([4, 3, 6, 6]), torch.float32, torch.int64)}


def test_native_data_set_with_a_python_transform_has_native_steps(photos, tmp_path):
    data = ss.ImageFolder(photos, T.Compose([T.CenterCrop(6), double, T.ToDtype()]))
    saved = written(examined(ss.DataLoader(data, 4, num_workers=2)), tmp_path)
    names = ["read", "decode", "center_crop_0", "double_1", "to_dtype_1", "collate"]
    assert [cost["name"] for cost in saved["costs"]] == names
    saved = written(examined(ss.DataLoader(data, 4, num_workers=1, collate_fn=collate)), tmp_path)
    assert [cost["name"] for cost in saved["costs"]] == ["data set", "center_crop_0", "double", "to_dtype_1", "collate"]


class Waiting(Images):
    def __getitem__(self, index):
        with ss.part("decode"):
            time.sleep(0.02)
        return super().__getitem__(index)


def test_named_parts_of_the_code_are_measured_in_worker_processes(tmp_path):
    report = examined(ss.DataLoader(Waiting(), 4, num_workers=1), lambda batch: None, budget=4)
    costs = {cost["name"]: cost["wall_ms"]["value"] for cost in written(report, tmp_path)["costs"]}
    assert list(costs) == ["decode", "data set", "transfer", "collate"] and costs["decode"] >= 20


def test_functions_given_as_parts_are_measured(photos, tmp_path):
    data = Images(Compose([double]))
    loader = ss.DataLoader(data, 4, num_workers=1)
    saved = written(examined(loader, lambda batch: None, parts=["transform"]), tmp_path)
    assert "transform" in [cost["name"] for cost in saved["costs"]]
    native = ss.DataLoader(ss.ImageFolder(photos, T.CenterCrop(6)), 4, num_workers=1)
    with pytest.raises(ss.Refused, match="reads its data set without Python and measures each"):
        examined(native, parts=["transform"])


def test_pipeline_around_a_loader_with_worker_processes_is_examined(tmp_path):
    loader = ss.DataLoader(ss.PythonDataset(Images(), CHAIN), 4, num_workers=1)
    halved = ss.Pipeline(loader, [("halve", lambda images: images / 2)])
    saved = written(examined(halved), tmp_path)
    assert saved["levels"][0]["name"] == "device batch" and saved["workload"]["options"]["stages"] == "halve"


@pytest.mark.parametrize("workers", [0, 1])
def test_samples_of_a_sampler_are_measured(workers):
    seen = set()

    def step(batch):
        assert len(batch[0]) == 2
        seen.update(batch[1].tolist())

    loader = ss.DataLoader(Images(), 2, sampler=SequentialSampler(range(3)), num_workers=workers)
    assert examined(loader, step, budget=4).rate.n > 0
    assert seen <= {0, 1, 2}


def init(worker):
    get_worker_info().dataset.opened = True


class Opened(Images):
    opened = False

    def __getitem__(self, index):
        assert self.opened  # worker_init_fn was called with this data set
        return super().__getitem__(index)


@pytest.mark.parametrize("collate_fn", [None, collate])
def test_worker_init_fn_gets_the_data_set_of_the_user(collate_fn):
    data = ss.PythonDataset(Opened(), T.CenterCrop(6))
    loader = ss.DataLoader(data, 4, num_workers=1, worker_init_fn=init, collate_fn=collate_fn)
    assert examined(loader, budget=4).rate.n > 0


class Failing(Images):
    def __getitem__(self, index):
        raise ValueError("no such sample")


def test_errors_of_samples_are_raised_and_no_process_remains():
    loader = ss.DataLoader(Images(), 4, num_workers=1)
    loader.dataset.__class__ = Failing
    with pytest.raises((ValueError, ss.Error), match="no such sample"):
        examined(loader)
    loader._close()


def test_loader_of_the_user_is_not_used(tmp_path):
    loader = ss.DataLoader(ss.PythonDataset(Images(), CHAIN), 4, shuffle=True, num_workers=1, seed=3)
    wanted = [labels.tolist() for _, labels in ss.DataLoader(Images(), 4, shuffle=True, num_workers=1, seed=3)]
    rest = iter(loader)
    first = next(rest)[1].tolist()
    examined(loader)
    assert [first, *(labels.tolist() for _, labels in rest)] == wanted
    loader._close()


def test_loaders_keep_the_settings_of_the_user():
    loader = ss.DataLoader(Images(), 4, True, num_workers=2, prefetch_factor=3, timeout=60)
    loaders = ProcessLoaders(loader)
    made = loaders.whole_loader()
    assert (made.num_workers, made.prefetch_factor, made.timeout, made.drop_last) == (2, 3, 60, True)
    assert type(made.sampler) is type(loader.sampler)
    folder = loaders._folder.name
    loaders.close()
    assert not os.path.exists(folder)
    loader._close()


def test_cost_files_have_the_lines_of_all_processes(tmp_path):
    files = [CostFile(str(tmp_path / "costs")) for _ in range(2)]
    for number, file in enumerate(files):
        file.add([number, "decode", 0.5])
    assert sorted(files[0].read()) == [[0, "decode", 0.5], [1, "decode", 0.5]]
    assert CostFile(str(tmp_path / "none")).read() == []


def test_view_gives_the_batches_of_the_loader(photos):
    plain = T.Compose([T.CenterCrop(6), double])
    data = ss.ImageFolder(photos, plain)
    for given in (data, ss.PythonDataset(Images(), plain)):
        loader = ss.DataLoader(given, 4, drop_last=True, collate_fn=collate)
        for ours, theirs in zip(views.view(loader), loader, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
