#include "python/contexts.h"

#include <torch/csrc/utils/pybind.h>

#include <map>
#include <mutex>

namespace slipstream {

std::shared_ptr<Context> context_of(const std::string& device) {
  const pybind11::gil_scoped_release unlocked;  // PyTorch's autograd, which is started, asks for it
  static std::mutex making;
  static auto& contexts = *new std::map<std::string, std::shared_ptr<Context>>;
  const std::lock_guard lock(making);
  std::shared_ptr<Context>& context = contexts[device];
  if (context == nullptr) context = std::make_shared<Context>(device);
  return context;
}

}  // namespace slipstream
