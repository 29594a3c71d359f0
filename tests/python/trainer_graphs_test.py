"""slipstream.Trainer(plan="graph"). On a CPU, this plan runs without graphs."""

import warnings

import pytest
import slipstream as ss
from torch.nn.functional import cross_entropy
from trained import Net, make_loader, make_trainer

OPTIONS = [
    {},
    {"optimizer": "adamw", "momentum": None, "lr": 0.01, "schedule": "cosine", "clip_grad": 0.5, "loss": cross_entropy},
    {"ema_decay": 0.9, "accumulate": 2, "precision": "bf16", "on_nan": "skip"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_graphs_give_the_bits_of_serial(photos, device, options):
    """An epoch has 50 samples in batches of 8; the last one has 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        serial, graph = (make_trainer(photos, device, **options | {"epochs": 6, "plan": plan}).fit()
                         for plan in ("serial", "graph"))
    assert graph.losses == serial.losses and graph.digest == serial.digest


def test_graphs_with_stages_validation_and_resuming_give_the_bits_of_serial(photos, device, tmp_path):
    def fit(plan, epochs, **options):
        pipe = ss.Pipeline(make_loader(photos, device), [("double", lambda images: images * 2)])
        return ss.Trainer(pipe, Net(), epochs=epochs, lr=0.05, plan=plan, deterministic=True, precision="fp32",
                          val=make_loader(photos, device), progress=False, **options).fit()

    expected = fit("serial", 8)
    assert fit("graph", 8).digest == expected.digest
    fit("graph", 4, checkpoint=tmp_path)
    assert fit("graph", 8, checkpoint=tmp_path, resume="auto").digest == expected.digest


def test_step_that_waits_for_the_device_trains_without_graph_after_one_warning(photos, device):
    def loss(output, labels):
        value = cross_entropy(output, labels)
        return value * (1 if value.item() > 0.5 else 2)

    serial = make_trainer(photos, device, loss=loss, epochs=4, plan="serial").fit()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        graph = make_trainer(photos, device, loss=loss, epochs=4, plan="graph").fit()
    found = [str(each.message) for each in seen if "without CUDA graphs" in str(each.message)]
    assert len(found) == (0 if device == "cpu" else 1)
    assert graph.losses == serial.losses and graph.digest == serial.digest


def test_step_that_depends_on_a_counter_is_found_and_trains_without_graph(photos, device):
    class Counting(Net):
        calls = 0

        def forward(self, images):
            self.calls += 1
            return super().forward(images) * (1 + self.calls)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        make_trainer(photos, device, Counting(), epochs=4, plan="graph").fit()
    found = [str(each.message) for each in seen if "computes something else" in str(each.message)]
    assert len(found) == (0 if device == "cpu" else 1)
