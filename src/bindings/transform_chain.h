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

/// The library's own transforms of a slipstream.transforms.Transform, parsed once. Data sets,
/// loaders and the doctor take its operations. Called with batches of images that exist already, it
/// applies them with the bits that the loader gives. Any thread may call it.
class TransformChain {
 public:
  /// `json`: a file of transforms. Throws Refused as parse_chain() does.
  explicit TransformChain(const std::string& json);
  ~TransformChain();

  const std::vector<NamedOp>& ops() const { return ops_; }
  bool is_random() const;

  /// `images`: uint8 or float32, batch x channels x height x width, on a CPU or a GPU, where
  /// kernels are enqueued on the current stream. Returns batch x channels x height x width,
  /// channels-last. `samples`: the number of each image, by which random operations draw, with seed
  /// and epoch. Throws Refused for images that the chain cannot take.
  at::Tensor operator()(const at::Tensor& images, const std::vector<std::uint64_t>& samples,
                        std::uint64_t seed, std::uint32_t epoch);

 private:
  struct Form;

  const Form& find_form(const at::Tensor& images);

  const std::vector<NamedOp> ops_;
  std::mutex changing_;
  std::map<std::string, std::unique_ptr<Form>> forms_;  ///< by shape, dtype and device
};

void add_transforms(pybind11::module_& module);

}  // namespace slipstream
