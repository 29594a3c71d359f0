"""Writes a frozen encoder for Slipstream: a small network with random weights from a fixed seed.

    python3 make_encoder.py FILE... [--device cpu|cuda] [--image-size 64] [--features 64]

FILE.pt is a TorchScript module, which runs anywhere. FILE.pt2 is an AOTInductor package, which is compiled for the
device, the processor and the version of PyTorch that create it.
"""

import argparse
import pathlib

import torch


class Encoder(torch.nn.Module):
    """Computes features of images in the format in which Slipstream loads them: uint8, batch x 3 x height x width."""

    def __init__(self, features):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 32, 3, stride=2, padding=1)
        self.second = torch.nn.Conv2d(32, features, 3, stride=2, padding=1)

    def forward(self, image):
        x = image.to(torch.float32) / 255
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return x.mean(dim=(2, 3))


def form(tensor, shape):
    """Describes a tensor, for example as "uint8[*, 3, 64, 64] channels_last"; "*" is a size that may change between
    batches."""
    sizes = ", ".join(str(size) if isinstance(size, int) else "*" for size in shape)
    text = f"{str(tensor.dtype).removeprefix('torch.')}[{sizes}]"
    if tensor.is_contiguous():
        return text
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return f"{text} channels_last"
    raise ValueError(f"an example of {text} is neither contiguous nor channels_last: make it so")


def write_package(program, file):
    """Compiles the result of torch.export.export, and adds the metadata that frozen_aot_inductor() checks."""
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    names, examples = program.graph_signature.user_inputs, program.example_inputs[0]
    metadata = {
        "slipstream_inputs": "; ".join(form(example, values[name].shape)
                                       for name, example in zip(names, examples, strict=True)),
        "slipstream_outputs": str(len(program.graph_signature.user_outputs)),
        "slipstream_torch": torch.__version__,
    }
    torch._inductor.aoti_compile_and_package(
        program, package_path=str(file), inductor_configs={"aot_inductor.metadata": metadata})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=pathlib.Path, metavar="FILE", help="*.pt or *.pt2")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--features", type=int, default=64)
    options = parser.parse_args()

    torch.manual_seed(1)
    encoder = Encoder(options.features).eval().requires_grad_(False).to(options.device)
    size = options.image_size
    images = torch.zeros(8, 3, size, size, dtype=torch.uint8, device=options.device)
    images = images.to(memory_format=torch.channels_last)  # the memory format in which Slipstream passes images
    for file in options.files:
        if file.suffix == ".pt2":
            batch = {0: torch.export.Dim("batch")}
            write_package(torch.export.export(encoder, (images,), dynamic_shapes=(batch,)), file)
        else:
            torch.jit.script(encoder).save(str(file))
        print(f"wrote {file}")


if __name__ == "__main__":
    main()
