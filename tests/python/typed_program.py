"""Calls of the package that mypy must accept; this program is not run."""

import numpy
import torch

import slipstream as ss

T = ss.transforms
chain = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToDtype(torch.float32, scale=True)])
normalize = [T.Normalize(numpy.zeros(3), torch.ones(3)), T.Normalize((0.5,), [1.0])]
data = ss.ImageFolder("photos", chain)
subsets = [ss.Subset(data, indices) for indices in (torch.arange(3), numpy.arange(3), range(3), [1])]
images = [chain(torch.zeros(16, 3, 8, 8), sample_ids=ids) for ids in (torch.arange(16), numpy.arange(16), range(16))]
model = torch.nn.Linear(1, 1)
report = ss.doctor(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(2))), print, state=model)
comparison: ss.Comparison = report.compare(report)
outlook: tuple[ss.Advice, str, bool, int | None] = (
    report.what_if({"data set": 2}), report.judge_share(0.95), comparison.is_worse, report.slowest_rank)
step: ss.CapturedStep = ss.capture(model, modules=[model], optimizers=[torch.optim.SGD(model.parameters())])
memory_bytes: int = step.memory_bytes + ss.Pipeline([], graphs=True).graph_memory_bytes
cache = ss.FeatureCache(versions=4, device_memory="20 GB", dtype=torch.bfloat16)
cached = ss.Pipeline(ss.DataLoader(data), [ss.Stage("encode", model, cache=cache), ss.Stage("add", model)])
hits: int = cache.report()["hits"]
