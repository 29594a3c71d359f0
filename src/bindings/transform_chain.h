#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "slipstream/engine/stage.h"
#include "slipstream/transforms/op.h"

namespace pybind11 {
class module_;
}

namespace slipstream {

/// The library's transforms of a slipstream.transforms.Transform, parsed once. Data sets, loaders
/// and the doctor use its operations. It can also be applied to batches of existing images, with
/// the same bits as in the loader. Any thread may call it.
class TransformChain {
 public:
  /// `json`: the content of a file of transforms. Throws Refused as parse_chain() does.
  explicit TransformChain(const std::string& json);
  ~TransformChain();

  const std::vector<NamedOp>& ops() const { return ops_; }
  bool is_random() const;

  /// Applies the chain. `images`: uint8 or float32, batch x channels x height x width, on a CPU or
  /// a GPU. On a GPU, the current stream is ordered before and after the kernels, and the call does
  /// not wait. Returns batch x channels x height x width in channels-last memory. `samples`: index
  /// of each image, which together with seed and epoch determines random operations. Throws Refused
  /// for images that the chain does not accept.
  at::Tensor operator()(const at::Tensor& images, const std::vector<std::uint64_t>& samples,
                        std::uint64_t seed, std::uint32_t epoch);

 private:
  struct Form;

  const Form& find_form(const at::Tensor& images);

  const std::vector<NamedOp> ops_;
  std::mutex changing_;
  std::map<std::string, std::unique_ptr<Form>> forms_;  ///< key: shape, dtype and device
};

void add_transforms(pybind11::module_& module);

}  // namespace slipstream
