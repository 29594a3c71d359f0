#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "slipstream/engine/stage.h"
#include "slipstream/transforms/op.h"

namespace slipstream {

class DeviceChain;

/// A chain done to batches of images that are there already, with the bits that the loader gives.
class TensorTransform {
 public:
  explicit TensorTransform(std::vector<NamedOp> chain);
  ~TensorTransform();

  /// `images`: uint8 or float32, batch x channels x height x width, on a CPU or a GPU, where it is
  /// done by kernels enqueued on the current stream. Gives them batch x channels x height x width,
  /// channels-last. `samples`: the number of each, by which random operations draw, with seed and
  /// epoch. Throws Refused for images that the chain cannot take.
  at::Tensor operator()(const at::Tensor& images, const std::vector<std::uint64_t>& samples,
                        std::uint64_t seed, std::uint32_t epoch);
  bool is_random() const;

 private:
  struct Form;

  const Form& find_form(const at::Tensor& images);

  std::vector<NamedOp> chain_;
  std::mutex changing_;
  std::map<std::string, std::unique_ptr<Form>> forms_;  ///< by shape, dtype and device
};

}  // namespace slipstream
