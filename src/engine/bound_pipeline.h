#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "slipstream/engine/context.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// A declared pipeline whose modules are on a context's device and whose optimizer has their
/// parameters.
struct BoundPipeline {
  /// Throws Refused if the pipeline cannot be trained.
  BoundPipeline(Pipeline declared, Context& where, const Plan::Numerics& how);

  /// Returns the layout of a batch under `plan`, for `batch_size` or, without a value, the
  /// pipeline's batch size.
  SlabLayout layout(const Plan& plan, std::optional<std::size_t> batch_size = std::nullopt) const;
  /// Returns the options of a loader under `plan` that starts with batch `first_batch`.
  DataLoaderOptions loader_options(const Plan& plan, std::uint64_t first_batch) const;
  /// Returns a function that restores the values of trained modules that no State contains
  /// (UnsavedState) to their present values.
  std::function<void()> keep_unsaved() const;
  /// Returns what a recorded graph cannot change: the addresses of all tensors that stages and
  /// training use, and the modes of modules. Graphs are valid while it is equal.
  std::vector<std::uint64_t> find_fixed() const;
  /// Waits for the device.
  void synchronize() const;

  Pipeline pipeline;
  Context& context;
  Plan::Numerics numerics;
  std::vector<at::Tensor> parameters;   ///< trainable parameters of the training stage
  std::vector<at::Tensor> buffers;      ///< buffers of the training stage
  std::vector<NamedTensor> persistent;  ///< parameters and buffers of the training stage

 private:
  void place_modules();
  void place(torch::nn::Module& module) const;
};

}  // namespace slipstream
