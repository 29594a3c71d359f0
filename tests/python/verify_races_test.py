"""slipstream.verify finds the races of known loops without hints, and their correct forms pass.

Loops with threads race on any device, loops with streams on a GPU.
"""

import itertools
import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

import slipstream as ss

torch.set_num_threads(1)
STEPS = 6


def make_training(device, features=16):
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 64)).to(device)
    decoder = nn.Linear(64, 4).to(device)
    optimizer = torch.optim.SGD(decoder.parameters(), 0.05, momentum=0.9)
    data = [(torch.randn(32, features), torch.randn(32, 4)) for _ in range(STEPS)]
    return encoder.eval().requires_grad_(False), decoder, optimizer, data


def train(decoder, optimizer, features, target):
    loss = mse_loss(decoder(features), target)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def refilling_thread(waits, device):
    """A thread prefetches into the only buffer."""
    encoder, decoder, optimizer, data = make_training(device)

    def run():
        buffer, items, is_free = torch.empty(32, 16), queue.Queue(1), threading.Semaphore(1)

        def refill():
            for features, target in data:
                if waits:
                    is_free.acquire()
                buffer.copy_(features)
                items.put(target)
            items.put(None)

        thread = threading.Thread(target=refill, daemon=True)
        thread.start()
        while (target := items.get()) is not None:
            with torch.no_grad():
                features = encoder(buffer.to(device))
            is_free.release()
            yield train(decoder, optimizer, features, target.to(device))
        thread.join()

    return run


def writing_thread(waits, device):
    """A thread averages weights while they are trained."""
    encoder, decoder, optimizer, data = make_training(device)

    def run():
        average = decoder.weight.detach().clone()

        def update():
            average.lerp_(decoder.weight.detach(), 0.5)
            decoder.weight.data.copy_(average)

        for features, target in data:
            thread = threading.Thread(target=update)
            with torch.no_grad():
                encoded = encoder(features.to(device))
            thread.start()
            if waits:
                thread.join()
            yield train(decoder, optimizer, encoded, target.to(device))
            thread.join()

    return run


def two_streams(waits, device):
    """The encoder processes batch n + 1 on one stream while the decoder trains on batch n on another."""
    encoder, decoder, optimizer, data = make_training(device)
    data = [(features.pin_memory(), target.pin_memory()) for features, target in data]

    def run():
        encode, decode = torch.cuda.Stream(), torch.cuda.Stream()
        before = None
        for batch in [*data, None]:
            batch_of_before, before = before, None
            if waits:
                decode.wait_stream(encode)
            if batch is not None:
                with torch.cuda.stream(encode), torch.no_grad():
                    features, target = (each.to(device, non_blocking=True) for each in batch)
                    before = encoder(features), target
            if batch_of_before is not None:
                with torch.cuda.stream(decode):
                    loss = train(decoder, optimizer, *batch_of_before)
                    for each in batch_of_before if waits else ():
                        each.record_stream(decode)
                    yield loss
        return decoder, optimizer

    return run


def labels_on_another_stream(waits, device):
    """Labels from page-locked memory are copied on the default stream, and used on another one."""
    encoder, decoder, optimizer, data = make_training(device)
    data = [(features, target.pin_memory()) for features, target in data]

    def run():
        decode = torch.cuda.Stream()
        for features, target in data:
            with torch.cuda.stream(decode), torch.no_grad():
                encoded = encoder(features.to(device))
            target = target.to(device, non_blocking=True)
            if waits:
                decode.wait_stream(torch.cuda.current_stream())
                target.record_stream(decode)
            with torch.cuda.stream(decode):
                yield train(decoder, optimizer, encoded, target)
            if waits:
                torch.cuda.current_stream().wait_stream(decode)

    return run


class Prefetcher:
    """Copies the next batch on a separate stream; without record_stream, the allocator may reuse its memory while
    the loop's stream still reads it."""

    def __init__(self, batches, device, waits):
        self.batches, self.device, self.waits = batches, device, waits

    def __iter__(self):
        stream, batch = torch.cuda.Stream(), None
        for following in self.batches:
            with torch.cuda.stream(stream):
                following = [each.to(self.device, non_blocking=True) for each in following]
                following[0].mul_(0.5)
            if batch is not None:
                yield batch
            current = torch.cuda.current_stream()
            current.wait_stream(stream)
            batch = following
            for each in batch if self.waits else ():
                each.record_stream(current)
        yield batch


def prefetcher(waits, device):
    encoder, decoder, optimizer, data = make_training(device, features=4096)
    data = [(features.pin_memory(), target.pin_memory()) for features, target in 3 * data]

    def run():
        for features, target in Prefetcher(data, device, waits):
            with torch.no_grad():
                encoded = encoder(features)
            yield train(decoder, optimizer, encoded, target)

    return run


def branches(waits, device):
    """Two branches on separate streams, which have to wait for their input."""
    encoder, decoder, optimizer, data = make_training(device)

    def run():
        main, others = torch.cuda.current_stream(), [torch.cuda.Stream(), torch.cuda.Stream()]
        for features, target in data:
            target = target.to(device)
            features = features.to(device).mul(0.5)
            encoded = []
            for other in others:
                if waits:
                    other.wait_stream(main)
                with torch.cuda.stream(other), torch.no_grad():
                    encoded.append(encoder(features))
                main.wait_stream(other)
                encoded[-1].record_stream(main)
            yield train(decoder, optimizer, encoded[0] + encoded[1], target)

    return run


def pinned_refill(waits, device):
    """One page-locked buffer, refilled for each batch."""
    encoder, decoder, optimizer, data = make_training(device)

    def run():
        buffer, copied = torch.empty(32, 16).pin_memory(), torch.cuda.Event()
        for features, target in data:
            if waits:
                copied.synchronize()
            buffer.copy_(features)
            features = buffer.to(device, non_blocking=True)
            copied.record()
            with torch.no_grad():
                encoded = encoder(features)
            yield train(decoder, optimizer, encoded, target.pin_memory().to(device, non_blocking=True))

    return run


OF_THREADS = [refilling_thread, writing_thread]
OF_STREAMS = [two_streams, labels_on_another_stream, prefetcher, branches, pinned_refill]


def passes(loop, device):
    report = ss.verify(lambda: loop(True, device), schedules=40 if device == "cuda" else 15)
    assert report.passed, report.text()


def assert_race_found(loop, device, functions):
    report = ss.verify(lambda: loop(False, device), schedules=40)
    assert report.verdict == "race", report.text()
    assert report.value or report.error
    file, function = re.fullmatch(r"(.*):\d+ in (\w+)", report.source).groups()
    assert Path(file).name == Path(__file__).name and function in functions, report.text()
    again = ss.verify(lambda: loop(False, device), seed=report.seed, schedules=1)
    assert (again.verdict, again.seed) == ("race", report.seed), again.text()


@pytest.mark.parametrize("loop", OF_THREADS)
def test_loops_with_synchronized_threads_pass(loop, device):
    passes(loop, device)


def test_thread_that_refills_its_buffer_too_early_is_found(device):
    assert_race_found(refilling_thread, device, {"run"})


def test_a_thread_that_writes_weights_is_found(device):
    assert_race_found(writing_thread, device, {"run", "update", "train"})


class Sleeping(torch.autograd.Function):
    @staticmethod
    def forward(ctx, loss, seconds):
        ctx.seconds = seconds
        return loss.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        return gradient, None


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_other_thread_does_not_run_during_backward(device):
    """During backward() the loop's thread only waits for autograd's thread, which must count as work."""
    seconds = itertools.cycle([0, 0.02])

    def make_run():
        _, decoder, optimizer, _ = make_training(device)
        sleep = next(seconds)

        def run():
            for _ in range(STEPS):
                loss = Sleeping.apply(decoder(torch.ones(32, 64, device=device)).square().mean(), sleep)
                thread = threading.Thread(target=decoder.weight.data.mul_, args=[0.5])
                thread.start()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                yield loss
                thread.join()

        return run

    report = ss.verify(make_run, schedules=1)
    assert report.verdict != "not_repeatable", report.text()


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("loop", OF_STREAMS)
def test_loops_with_synchronized_streams_pass(loop, device):
    passes(loop, device)


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("loop", OF_STREAMS)
def test_races_between_unsynchronized_streams_are_found(loop, device):
    assert_race_found(loop, device, {"run", "train", "__iter__"})


def pipelined(device, stages, serial=False):
    encoder, decoder, optimizer, data = make_training(device)
    loader = torch.utils.data.DataLoader([*zip(*map(torch.cat, zip(*data, strict=True)), strict=True)], 32,
                                         num_workers=2, pin_memory=device == "cuda")  # fmt: skip

    def run():
        pipe = ss.Pipeline(loader, stages(encoder), device=device, serial=serial)
        for number, (features, target) in enumerate(pipe):
            with torch.autocast(device, torch.bfloat16):
                loss = mse_loss(decoder(features).float(), target)
            loss.backward()
            if number % 2:
                optimizer.step()
                optimizer.zero_grad()
            yield loss
        return decoder, optimizer

    return run


@pytest.mark.parametrize("serial", [False, True])
def test_loops_over_pipelines_pass(device, serial):
    def stages(encoder):
        return [("half", lambda features: features * 0.5), ss.Stage("encode", encoder, autocast=False)]

    report = ss.verify(lambda: pipelined(device, stages, serial), schedules=5)
    assert report.passed, report.text()


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_race_hidden_by_digests_of_large_tensors_is_found(device):
    def make_run():
        def run():
            large, small = torch.zeros(1 << 28, device=device), torch.zeros(4, device=device)
            other = torch.cuda.Stream()
            other.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(other):
                torch.cuda._sleep(20_000_000)
                small.add_(1)
            total = large.sum() + small.sum()
            torch.cuda.current_stream().wait_stream(other)
            return total

        return run

    reports = [ss.verify(make_run, seed=seed, schedules=1) for seed in range(4)]
    named = [each.operation for each in reports if each.verdict == "race"]
    assert named and all(each and "sum" in each for each in named), [each.text() for each in reports]


ASSERTION = """
import sys, torch, slipstream as ss

def make_run():
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4).cuda()
    labels = [torch.randint(0, 4, [16]).pin_memory() for _ in range(4)]
    features = torch.randn(16, 8).cuda()

    def run():
        copies, target = torch.cuda.Stream(), torch.empty(16, dtype=torch.int64, device="cuda")
        for each in labels:
            target.fill_(1000)
            copies.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(copies):
                target.copy_(each, non_blocking=True)
            loss = torch.nn.functional.cross_entropy(model(features), target)
            loss.backward()
            torch.cuda.current_stream().wait_stream(copies)
        return model

    return run

report = ss.verify(make_run, seed=int(sys.argv[1]), schedules=int(sys.argv[2]))
print(report.verdict, report.seed, report.operation, any("cannot use CUDA" in note for note in report.notes),
      sep="|")
sys.stdout.flush()
import os
os._exit(0)
"""


@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_device_side_assertion_is_reported_as_a_race(device):
    def answer(seed, schedules):
        command = [sys.executable, "-c", ASSERTION, str(seed), str(schedules)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=300)
        return done.stdout.strip().split("|") if done.stdout else [done.stderr[-2000:]]

    verdict, seed, _, has_lost_device = answer(0, 40)
    assert (verdict, has_lost_device) == ("race", "True")
    verdict, same_seed, operation, _ = answer(seed, 1)
    assert (verdict, same_seed) == ("race", seed) and "nll_loss" in operation
