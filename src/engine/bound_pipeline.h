#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "slipstream/engine/context.h"
#include "slipstream/engine/pipeline.h"

namespace slipstream {

/// A declaration with its modules on a context's device, its optimizer bound to them.
struct BoundPipeline {
  /// Throws Refused for what cannot be trained.
  BoundPipeline(Pipeline declared, Context& where, const Plan::Numerics& how);

  /// The layout of a batch under `plan`, of the pipeline's batch size or of `batch_size`.
  SlabLayout layout(const Plan& plan, std::optional<std::size_t> batch_size = std::nullopt) const;
  /// The options of a loader under `plan` that begins with batch `first_batch`.
  DataLoaderOptions loader_options(const Plan& plan, std::uint64_t first_batch) const;
  /// What puts values of trained modules back that no State holds (Unsaved).
  std::function<void()> keep_unsaved() const;
  /// Waits for the device.
  void synchronize() const;

  Pipeline pipeline;
  Context& context;
  Plan::Numerics numerics;
  std::vector<at::Tensor> parameters;   ///< of the training stage, those that train
  std::vector<at::Tensor> buffers;      ///< of the training stage
  std::vector<NamedTensor> persistent;  ///< parameters and buffers of the training stage

 private:
  void place_modules();
  void place(torch::nn::Module& module) const;
};

}  // namespace slipstream
