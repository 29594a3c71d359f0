"""The examples with Lightning, Accelerate, FSDP2 and Ray Data train on the samples of the plain example, with any
number of processes, and after they were resumed with another number."""

import runpy
import tempfile
from pathlib import Path

import pytest
import torch
from forked import FORKS, IMPORTED, run_script
from torch import nn

import slipstream as ss

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"
STEPS = 15  # an epoch has 6 steps
FORKS.set_forkserver_preload([*IMPORTED, "lightning", "accelerate"])


def run(script, ranks, data, steps, logs, *options):
    words = [data, "--steps", steps, "--batch-size", 8, "--num-workers", 1, "--save-every", 3, *options]
    assert f"step {steps}: loss " in run_script(EXAMPLES / script, words, logs, ranks)


@pytest.fixture(scope="module")
def plain(photos, tmp_path_factory):
    """Returns the weights of the plain example after its last step."""
    folder = tmp_path_factory.mktemp("plain")
    run("train.py", 0, photos, STEPS, folder / "logs", "--checkpoint", folder / "run.pt")
    return torch.load(folder / "run.pt")["model"]


def lightning_weights(folder):
    state = torch.load(folder / "last.ckpt", weights_only=False)
    assert state["loops"]["fit_loop"]["state_dict"]["combined_loader"][0]["position"] == STEPS
    return {name.removeprefix("model."): value for name, value in state["state_dict"].items()}


def accelerate_weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / f"step-{STEPS:08}" / "model.safetensors")


def fsdp2_weights(folder):
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(folder / f"step-{STEPS:08}", folder / "whole.pt")
    return torch.load(folder / "whole.pt", weights_only=False)["model"]


@pytest.mark.parametrize("script, package, weights", [
    ("lightning_module.py", "lightning", lightning_weights),
    ("accelerate_loop.py", "accelerate", accelerate_weights),
    ("fsdp2.py", "torch", fsdp2_weights),
])
def test_resume_with_other_process_count_gives_plain_weights(photos, plain, tmp_path, script, package, weights):
    pytest.importorskip(package)
    options = ["--checkpoints", tmp_path / "runs", "--timeout", 20]
    run(script, 2, photos, 9, tmp_path / "logs", *options)
    run(script, 4, photos, STEPS, tmp_path / "later-logs", *options)
    torch.testing.assert_close(weights(tmp_path / "runs"), plain, rtol=1e-4, atol=1e-6)  # sums have another order


@pytest.mark.parametrize("script, package, weights", [
    ("lightning_module.py", "lightning", lightning_weights),
    ("accelerate_loop.py", "accelerate", accelerate_weights),
])
def test_single_process_gives_exact_weights_of_plain_loop(photos, plain, tmp_path, script, package, weights):
    pytest.importorskip(package)
    run(script, 0, photos, STEPS, tmp_path / "logs", "--checkpoints", tmp_path / "runs")
    torch.testing.assert_close(weights(tmp_path / "runs"), plain, rtol=0, atol=0)


def test_lightning_trains_on_pipeline_around_torch_loader():
    lightning = pytest.importorskip("lightning")
    samples = torch.utils.data.TensorDataset(torch.arange(20.0).reshape(20, 1))

    class Collecting(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.seen, self.layer = [], nn.Linear(1, 1)

        def training_step(self, batch, batch_index):
            self.seen.append(batch[0].clone())
            return self.layer(batch[0]).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def loader():
        return torch.utils.data.DataLoader(samples, 4, shuffle=True, generator=torch.Generator().manual_seed(2))

    def seen_in(loop):
        module = Collecting()
        trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                                    enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(module, loop)
        return torch.stack(module.seen)

    noise = ss.Stage("noise", lambda x: x + torch.rand_like(x), seed=1)
    seen, serial = (seen_in(ss.Pipeline(loader(), [noise], "cpu", serial=each)) for each in (False, True))
    assert torch.equal(seen, serial)
    for epoch in (seen[:5], seen[5:]):
        assert sorted(epoch.floor().flatten().tolist()) == list(range(20))


def test_pipeline_around_accelerate_loader_gives_its_batches():
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(20.0)), 4, num_workers=1)
    prepared = accelerator.prepare_data_loader(loader, device_placement=False)
    pipe = ss.Pipeline(prepared, [("double", lambda x: 2 * x)], "cpu")
    assert accelerator.prepare(pipe) is pipe
    assert [batch.tolist() for batch, in pipe] == [(2 * batch).tolist() for batch, in loader]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stages", [0, 1, 2])
def test_accelerate_updates_at_same_batches_with_and_without_pipeline(stages, workers):
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True, gradient_accumulation_steps=4)
    samples = torch.utils.data.TensorDataset(torch.randn(30, 5, generator=torch.Generator().manual_seed(0)))

    def trained(wrap):
        torch.manual_seed(1)
        model = nn.Linear(5, 1)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        loader = torch.utils.data.DataLoader(samples, 4, num_workers=workers)
        loop, updates, gathered = wrap(accelerator.prepare_data_loader(loader, device_placement=False)), [], []
        for number, (x,) in enumerate(batch for _ in range(2) for batch in loop):
            with accelerator.accumulate(model):
                accelerator.backward(model(x).square().mean())
                optimizer.step()
                updates.append((number, accelerator.sync_gradients))
                gathered.append(len(accelerator.gather_for_metrics(x)))
                optimizer.zero_grad()
        return updates, gathered, [each.detach().clone() for each in model.parameters()]

    def pipeline(loader):
        return ss.Pipeline(loader, [(f"stage{i}", lambda x: x * 1.0) for i in range(stages)], "cpu")

    (updates, gathered, weights), ours = trained(lambda loader: loader), trained(pipeline)
    assert [number for number, is_update in updates if is_update] == [3, 7, 11, 15]
    assert ours[:2] == (updates, gathered)
    torch.testing.assert_close(ours[2], weights, rtol=0, atol=0)


def test_accelerate_loader_inside_other_iterable_is_refused():
    accelerator = pytest.importorskip("accelerate").Accelerator(cpu=True)
    loader = accelerator.prepare_data_loader(torch.utils.data.DataLoader(torch.arange(20.0), 4), device_placement=False)

    class Shown:
        def __iter__(self):
            return iter(loader)

    with pytest.raises(ss.Refused, match="or what prepare_data_loader.. returned, to one slipstream.Pipeline"):
        next(iter(ss.Pipeline(Shown(), (), "cpu")))
    assert len(list(ss.Pipeline(Shown(), (), "cpu", serial=True))) == 5


def test_ray_data_trains_same_weights_pipelined_and_serial(photos, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    example = runpy.run_path(str(EXAMPLES / "ray_data.py"))
    classes = ["class0", "class1", "class2"]
    # the path must be short, because Ray creates sockets in it
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
        try:
            batches = example["make_batches"](str(photos), classes, batch_size=8, size=32)
            first = next(iter(batches))
            assert first["image"].shape == (8, 32, 32, 3) and first["image"].dtype == torch.uint8
            ahead, serial = (example["train"](batches, classes, 1, each).state_dict() for each in (False, True))
        finally:
            ray.shutdown()
    torch.testing.assert_close(ahead, serial, rtol=0, atol=0)
