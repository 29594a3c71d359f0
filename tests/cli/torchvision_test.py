"""Compares ResNets with torchvision's: names, shapes and types of weights, and predictions."""

import json
import sys
import unittest

import numpy

from program import DONE, ProgramTest

try:
    import safetensors.torch
    import torch
    import torchvision
    from PIL import Image
except ImportError as error:
    print(f"{error}: scripts/setup.sh --lint installs tests/requirements.txt")
    sys.exit(1)

SIZE, SAMPLES, CLASSES = 40, 6, 3  # images have the size of the model's input, so that none is resized
# After this many steps the statistics of BatchNorm fit the images, so that predictions differ.
STEPS = 40
MODELS = ("resnet18", "resnet50")
FORWARD = ["--device", "cpu", "--image-size", SIZE, "--batch-size", "2"]


def make_model(name):
    return getattr(torchvision.models, name)(num_classes=CLASSES)


def shapes_and_dtypes(tensors):
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}


class TorchvisionTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draws = numpy.random.default_rng(1)
        cls.pixels = {}
        for index in range(SAMPLES):
            path = cls.folder / "data" / f"class{index % CLASSES}" / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = draws.integers(0, 256, (5, 5, 3), numpy.uint8)
            cls.pixels[str(path)] = noise.repeat(SIZE // 5, 0).repeat(SIZE // 5, 1)
            Image.fromarray(cls.pixels[str(path)]).save(path)

    def command(self, verb, model):
        return [verb, "classification", "--model", model, "--data", self.folder / "data", *FORWARD]

    def trained(self, model):
        """Returns the file of the weights after some steps."""
        checkpoints = self.folder / f"{model} trained"
        self.expect(DONE, *self.command("train", model), "--lr", "0.001", "--steps", STEPS, "--checkpoint",
                    checkpoints)
        return checkpoints / f"step-{STEPS:08}" / "weights.safetensors"

    def check_predictions(self, name, weights, model):
        """Checks that both models predict the same probabilities, and that these differ between images."""
        out = self.folder / f"predictions by {weights.stem} of {name}"
        self.expect(DONE, *self.command("predict", name), "--weights", weights, "--out", out)
        lines = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual(len(lines), SAMPLES)
        images = numpy.stack([self.pixels[line["sample"]] for line in lines]).transpose(0, 3, 1, 2)
        with torch.no_grad():
            want = model.eval()(torch.from_numpy(images.copy()).float() / 255).softmax(1).numpy()
        found = numpy.empty_like(want)
        for row, line in zip(found, lines, strict=True):
            for each in line["classes"]:
                row[int(each["class"].removeprefix("class"))] = each["probability"]
        self.assertGreater(numpy.ptp(want, axis=0).max(), 0.01)
        numpy.testing.assert_allclose(found, want, rtol=0, atol=1e-4)

    def test_saved_weights_load_into_torchvision_and_predict_the_same(self):
        for name in MODELS:
            with self.subTest(name):
                weights, model = self.trained(name), make_model(name)
                tensors = safetensors.torch.load_file(weights)
                self.assertEqual(shapes_and_dtypes(tensors), shapes_and_dtypes(model.state_dict()))
                model.load_state_dict(tensors, strict=True)
                self.assertEqual(int(model.bn1.num_batches_tracked), STEPS)
                self.check_predictions(name, weights, model)

    def test_weights_saved_by_torchvision_predict_the_same(self):
        torch.manual_seed(1)
        for name in MODELS:
            with self.subTest(name):
                model = make_model(name).train()
                with torch.no_grad():
                    for _ in range(3):  # so that the statistics of BatchNorm differ from their initial values
                        model(torch.rand(4, 3, SIZE, SIZE))
                    model.fc.weight.mul_(10)
                weights = self.folder / f"{name}.safetensors"
                safetensors.torch.save_file(model.state_dict(), weights)
                self.check_predictions(name, weights, model)


if __name__ == "__main__":
    unittest.main()
