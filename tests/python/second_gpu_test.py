"""Uses a second GPU while the first one stays the current device."""

import itertools
import json
import subprocess
import sys

import pytest
from tensors import all_equal
import torch

import slipstream as ss
from trained import CHAIN, Net, make_loader, make_trainer

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no second GPU here")

T = ss.transforms
SECOND = torch.device("cuda:1")
LOADERS = {"pixels": {}, "transforms": {"transforms_device": "cuda"}, "files": {"wire": {"image": "jpeg"}}}


class Scaled(torch.nn.Module):
    def forward(self, images):
        return images.float() / 255


SCRIPT = torch.jit.script(Scaled().eval())
STAGES = {"none": [], "function": [("scale", lambda images: images.float() / 255)], "script": [("scale", SCRIPT)]}


@pytest.fixture(autouse=True)
def _the_first_one_is_in_use_and_stays_the_current_one():
    torch.zeros(1, device="cuda:0")
    yield
    assert torch.cuda.current_device() == 0
    assert torch.zeros(1, device="cuda").device.index == 0


@pytest.mark.parametrize(("loader", "stages"), itertools.product(LOADERS, STAGES))
def test_second_gpu_gets_same_batches_as_first(photos, loader, stages):
    chain = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip()])
    batches = []
    for device in ("cuda:0", "cuda:1"):
        native = ss.DataLoader(ss.ImageFolder(photos, chain), 8, num_workers=2, device=device, **LOADERS[loader])
        for images, labels in ss.Pipeline(native, stages=STAGES[stages]):
            assert images.device == labels.device == torch.device(device)
            batches.append(images.cpu())
            images.add_(1)  # runs on the caller's stream
    assert len(batches) == 2 * 7
    assert all_equal(batches[:7], batches[7:])


@pytest.mark.parametrize("stages", STAGES)
@pytest.mark.parametrize("own_stream", [False, True])
def test_torch_loader_and_custom_stream_work_on_second_gpu(stages, own_stream):
    data = torch.arange(64 * 12).view(64, 3, 2, 2) % 256
    pinned = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), 8, pin_memory=True)
    stream = torch.cuda.Stream(SECOND) if own_stream else torch.cuda.default_stream(SECOND)
    seen = []
    with torch.cuda.stream(stream), torch.cuda.device(0):
        for (images,) in ss.Pipeline(pinned, stages=STAGES[stages], device="cuda:1"):
            assert images.device == SECOND and torch.cuda.current_device() == 0
            seen.append(images.double().sum())
        sums = [each.item() for each in seen]
    expected = data.double().view(8, -1).sum(1) / (1 if stages == "none" else 255)
    assert sums == pytest.approx(expected.tolist())


def test_training_on_second_gpu_gives_same_weights_as_first(photos):
    results = []
    for device in ("cuda:0", "cuda:1"):
        trainer = make_trainer(photos, device, Net())
        trainer.fit()
        assert next(trainer.model.parameters()).device == torch.device(device)
        outputs = [each.cpu() for each in trainer.predict(make_loader(photos, device))]
        results.append([each.cpu() for each in trainer.model.state_dict().values()] + outputs)
    assert all_equal(*results)


def test_transforms_on_second_gpu_give_same_batch_as_cpu():
    images = torch.arange(2 * 3 * 32 * 32).view(2, 3, 32, 32).to(torch.uint8)
    chain = T.Compose(CHAIN)
    made = chain(images.to(SECOND), torch.arange(2), epoch=0)
    assert made.device == SECOND
    assert torch.equal(made.cpu(), chain(images, torch.arange(2), epoch=0))


CONTEXTS = """
import ctypes, json, sys, torch
sys.path.insert(0, sys.argv[2])
import slipstream as ss
from trained import make_loader, make_trainer
T = ss.transforms
torch.cuda.set_device(1)
for options in json.loads(sys.argv[3]):
    chain = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip()])
    loader = ss.DataLoader(ss.ImageFolder(sys.argv[1], chain), 8, num_workers=2, device="cuda", **options)
    for stage in (torch.jit.script(torch.nn.ReLU().eval()), lambda images: images * 2):
        for images, labels in ss.Pipeline(loader, stages=[("stage", stage)]):
            images.sum()
trainer = make_trainer(sys.argv[1], "cuda")
trainer.fit()
assert len(list(trainer.predict(make_loader(sys.argv[1], "cuda")))) == 7
driver, flags, active = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint(), ctypes.c_int()
contexts = []
for device in (0, 1):
    assert driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0
    contexts.append(active.value)
print(contexts)
"""


def test_process_on_second_gpu_creates_no_context_on_first(photos, request):
    told = subprocess.run([sys.executable, "-c", CONTEXTS, photos, request.path.parent, json.dumps(list(LOADERS.values()))],
                          capture_output=True, text=True, timeout=300)
    assert (told.returncode, told.stdout.split("\n")[-2:]) == (0, ["[0, 1]", ""]), told.stderr + told.stdout
