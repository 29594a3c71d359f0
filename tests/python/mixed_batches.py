"""Computes mixed batches with the formulas of docs/random.md and docs/transforms.md."""

import math

import numpy
import torch

WORD = 2**32


class Words:
    """Random words of Philox4x32-10 for the sample at index `place` of batch `batch`."""

    def __init__(self, seed, batch, place, operation):
        self.key = [seed % WORD, seed // WORD]
        self.counter = [batch % WORD, batch // WORD, place, operation << 26]
        self.left = []

    def next(self):
        if not self.left:
            self.left = self.block()
            self.counter[3] += 1
        return self.left.pop(0)

    def block(self):
        (a, b, c, d), (k0, k1) = self.counter, self.key
        for turn in range(10):
            e, f = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = (f // WORD ^ b ^ (k0 + turn * 0x9E3779B9) % WORD, f % WORD,
                          e // WORD ^ d ^ (k1 + turn * 0xBB67AE85) % WORD, e % WORD)
        return [a, b, c, d]

    def below(self, bound):
        return self.next() * bound // WORD  # rejected words do not occur in these tests

    def symmetric_beta(self, alpha):
        u = (((self.next() * WORD + self.next()) >> 12) + 0.5) * 2.0**-52
        cosine = math.cos(2 * math.pi * self.next() / WORD)
        t = (math.exp(min(-math.log(u) / alpha, 700)) - 1) * cosine**2
        half = math.sqrt(t / (1 + t)) / 2
        return 0.5 - half if cosine < 0 else 0.5 + half


def mixed(images, labels, op, alpha, seed, batch, first_place=0, operation=2, classes=3, smoothing=0.0):
    """Mixes a whole batch: images as loaded, labels as class numbers."""
    images, hot = images.numpy(), numpy.full((len(labels), classes), smoothing / classes, "float32")
    hot[range(len(labels)), labels.numpy()] = numpy.float32(1 - smoothing + smoothing / classes)
    made, targets = images.copy(), hot.copy()
    height, width = images.shape[2:]
    for i in range(len(images)):
        words = Words(seed, batch, first_place + i, operation)
        own = 1.0 if op == "one_hot" else words.symmetric_beta(alpha)
        if op == "cutmix":
            x, y = words.below(width), words.below(height)
            half_x, half_y = (int(math.sqrt(1 - own) / 2 * side) for side in (width, height))
            left, right = max(x - half_x, 0), min(x + half_x, width)
            top, bottom = max(y - half_y, 0), min(y + half_y, height)
            made[i, :, top:bottom, left:right] = images[i - 1, :, top:bottom, left:right]
            own = 1 - (right - left) * (bottom - top) / (height * width)
        own = numpy.float32(own)
        other = numpy.float32(1) - own
        if op == "mixup":
            made[i] = images[i] * own + images[i - 1] * other
        targets[i] = hot[i] * own + hot[i - 1] * other
    return torch.from_numpy(made), torch.from_numpy(targets)
