#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>

#include <memory>
#include <string>
#include <type_traits>

// Everything that the supported versions of PyTorch, 2.11 and newer, declare differently. The
// differences are found by type, so that a version in which one of them changes is not named here.

namespace slipstream {

/// Owns a node of the autograd graph of type T: std::shared_ptr in PyTorch 2.11, c10::intrusive_ptr
/// in 2.15.
template <typename T>
using NodePtr = std::conditional_t<std::is_same_v<decltype(torch::autograd::Edge::function),
                                                  std::shared_ptr<torch::autograd::Node>>,
                                   std::shared_ptr<T>, c10::intrusive_ptr<T>>;

template <typename T>
NodePtr<T> make_node() {
  if constexpr (std::is_same_v<NodePtr<T>, std::shared_ptr<T>>)
    return std::make_shared<T>();
  else
    return c10::make_intrusive<T>();
}

/// Name of `type` as in torch.float32, without "torch.". PyTorch returns a std::string in 2.11, a
/// std::string_view in 2.15.
inline std::string dtype_name(at::ScalarType type) {
  return std::string(c10::getDtypeNames(type).first);
}

}  // namespace slipstream
