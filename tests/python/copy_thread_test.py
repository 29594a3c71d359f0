"""Loaders whose batches are copied to the device by a thread. This is always so for images that are sent as files;
`wants_thread` enables it for other batches, and on a CPU."""

import os
import time

import interpreters
import pytest
from tensors import all_equal
import torch

import slipstream as ss

T = ss.transforms


def make_loader(photos, device, by_thread=True, **options):
    chain = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip()])
    loader = ss.DataLoader(ss.ImageFolder(photos, chain), 8, shuffle=True, num_workers=2, device=device,
                           **{"seed": 0} | options)
    loader._native.wants_thread = by_thread
    return loader


class Scaled(torch.nn.Module):
    def forward(self, images):
        return images.float() / 255


SCRIPT = torch.jit.script(Scaled().eval())
STAGES = {
    "none": [],
    "function": [("scale", lambda images: images.float() / 255)],
    "script first": [("scale", SCRIPT)],
    "script second": [("same", lambda images: images + 0), ("scale", SCRIPT), ("twice", lambda images: images * 2)],
}


@pytest.mark.parametrize("stages", STAGES)
def test_copy_thread_gives_same_batches_as_loop_without_it(photos, device, stages):
    all_of_them = []
    for by_thread in (False, True):
        loader = make_loader(photos, device, by_thread)
        assert loader._native.wants_thread == by_thread
        batches = ss.Pipeline(loader, stages=STAGES[stages]) if STAGES[stages] else loader
        kept = []
        for until in (3, 100, 1, 100):  # breaks, then continues with the next epoch
            for number, (images, labels) in enumerate(batches):
                kept += [images, labels]
                if number == until:
                    break
        all_of_them.append([each.cpu() for each in kept])
        assert loader.state_dict()["position"] == 4 * len(loader)
    assert len(all_of_them[0]) == 2 * (4 + 7 + 2 + 7)
    assert all_equal(*all_of_them)


def test_jpeg_wire_format_uses_the_copy_thread(photos, device):
    if device != "cuda":
        pytest.skip("for a GPU")
    loader = make_loader(photos, device, False, wire={"image": "jpeg"})
    assert loader._native.wants_thread
    first = [images.cpu() for images, _ in loader]
    loader.set_epoch(0)
    assert all_equal(first, [images.cpu() for images, _ in loader])


@pytest.mark.parametrize("where", ["files", "pixels", "script"])
def test_loop_can_capture_cuda_graphs_while_threads_call_cuda(photos, device, where):
    if device != "cuda":
        pytest.skip("for a GPU")
    options = {"wire": {"image": "jpeg"}} if where == "files" else {}
    loader = make_loader(photos, device, False, drop_last=True, **options)
    pipe = ss.Pipeline(loader, stages=[("scale", SCRIPT)] if where == "script" else [])
    given, side = torch.ones(8, 3, 24, 24, device=device) * 2, torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graphs, results, expected = [], [], []
    for _ in range(3):
        for images, _ in pipe:
            # about 10 ms, so that the threads poll for the end of copies during the capture
            torch.cuda._sleep(20_000_000)
            graphs.append(torch.cuda.CUDAGraph())
            with torch.cuda.stream(side):
                graphs[-1].capture_begin()
                made = given * 2
                time.sleep(0.02)
                graphs[-1].capture_end()
            given.copy_(images)
            graphs[-1].replay()
            results.append(made.clone())
            expected.append(images.float() * 2)
    assert len(results) == 3 * 6 and all_equal(results, expected)


def test_dispatch_mode_sees_operations_of_the_copy(photos, device):
    """Under a dispatch mode the loader uses no copy thread, because the mode would not see its operations."""
    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.count += 1
            return function(*args, **(kwargs or {}))

    with Seen() as seen:
        assert len(list(make_loader(photos, device))) == 7
    assert seen.count > 0


@pytest.mark.parametrize("by_thread", [False, True])
def test_loader_error_is_raised_after_prefetched_batches(tmp_path, photos, device, by_thread):
    (tmp_path / "a").mkdir()
    files = sorted(photos.glob("*/*"))[:20]
    for number, file in enumerate(files):
        (tmp_path / "a" / f"{number:02}.jpg").write_bytes(file.read_bytes() if number != 10 else b"no image")
    loader = ss.DataLoader(ss.ImageFolder(tmp_path, T.CenterCrop(8)), 4, device=device, num_workers=1)
    loader._native.wants_thread = by_thread
    for _ in range(2):
        given = 0
        with pytest.raises(ss.Error, match="10.jpg"):
            for _ in loader:
                given += 1
        assert given == 2
        loader.set_epoch(0)
    (tmp_path / "a" / "10.jpg").write_bytes(files[10].read_bytes())
    assert len(list(loader)) == 5


def test_second_iterator_gets_all_batches_and_first_one_continues(photos, device):
    loader = make_loader(photos, device)
    expected = [images.cpu() for images, _ in loader]
    for _ in range(20):
        loader.set_epoch(0)
        left_open = iter(loader)
        next(left_open)
        loader.set_epoch(0)
        assert all_equal(expected, [images.cpu() for images, _ in loader])
        assert torch.equal(next(left_open)[0].cpu(), expected[1])


def test_error_in_loop_or_stage_ends_only_that_iteration(photos, device):
    loader = make_loader(photos, device)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            for _ in loader:
                1 / 0

    def fails(images):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        list(ss.Pipeline(loader, stages=[("fails", fails)]))
    assert len(list(loader)) == 7


def run(code, *arguments):
    code = "import os, sys, slipstream as ss, torch\nT = ss.transforms\n" + code
    return interpreters.run(code, *arguments)


def test_copy_adds_one_thread_and_open_iterator_exits_cleanly(photos):
    told = [run("""
loader = ss.DataLoader(ss.ImageFolder(sys.argv[1], T.CenterCrop(8)), 8, num_workers=1)
loader._native.wants_thread = sys.argv[2] == "thread"
if sys.argv[2] != "caller":
    torch.set_default_device("cpu")  # a mode that sees no copies
left_open = iter(loader)
next(left_open)
print(len(os.listdir("/proc/self/task")))
""", photos, by) for by in ("thread", "caller")]
    assert [each.returncode for each in told] == [0, 0], told
    assert int(told[0].stdout) == int(told[1].stdout) + 1


def test_batches_follow_the_callers_inference_mode(photos, device):
    for by_thread in (False, True):
        with torch.inference_mode():
            images, _ = next(iter(make_loader(photos, device, by_thread)))
        assert images.is_inference()
        assert not next(iter(make_loader(photos, device, by_thread)))[0].is_inference()


def test_ctrl_c_ends_the_wait_for_a_late_batch(photos):
    """The 200 samples of the batch take far longer than the test may."""
    ended = run("""
import signal, threading
slow = T.Compose([T.Resize((2000, 2000))] + [T.GaussianBlur(63)] * 4 + [T.CenterCrop(8)])
loader = ss.DataLoader(ss.ConcatDataset([ss.ImageFolder(sys.argv[1], slow)] * 4), 200, num_workers=1)
loader._native.wants_thread = True
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    next(iter(loader))
except KeyboardInterrupt:
    print("ended")
""", photos)
    assert (ended.returncode, ended.stdout) == (0, "ended\n"), ended.stderr


def test_iterator_in_forked_process_is_refused(photos):
    loader = make_loader(photos, "cpu")
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if child == 0:
        try:
            next(batches)
        except ss.Refused as error:
            os._exit(0 if "was forked from" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(batches)) == 6
