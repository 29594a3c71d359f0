#pragma once

#include <torch/nn/modules/linear.h>

#include "cli/encoder.h"

namespace slipstream {

/// The encoder, followed by a linear layer to the classes.
struct ClassifierImpl : torch::nn::Module {
  ClassifierImpl(std::int64_t levels, std::int64_t classes)
      : encoder(register_module("encoder", Encoder(levels))),
        head(register_module("head", torch::nn::Linear(kFirstChannels << levels, classes))) {}

  at::Tensor forward(const at::Tensor& images) {
    return head->forward(encoder->forward(images).flatten(1));
  }

  Encoder encoder;
  torch::nn::Linear head;
};
TORCH_MODULE(Classifier);

}  // namespace slipstream
