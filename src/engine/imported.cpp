#include "engine/imported.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "core/plain_message.h"
#include "engine/torch_version.h"
#include "slipstream/core/error.h"

namespace slipstream {

Imported::Imported(const std::filesystem::path& file, std::vector<std::string> inputs,
                   std::vector<std::string> outputs)
    : torch::nn::Module(file.filename().string()),
      file_(file.string()),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {
  std::vector<std::string> problems;
  if (!std::filesystem::is_regular_file(file))
    problems.push_back(file_ + ": there is no such file; give the path of the module's file");
  if (inputs_.empty())
    problems.push_back(file_ + ": no inputs were named; name the fields that it reads");
  if (outputs_.empty())
    problems.push_back(file_ + ": no outputs were named; name the fields that it sets");
  refuse(problems);
}

void Imported::run(Batch& batch) {
  std::vector<at::Tensor> read;
  std::string given;
  for (const std::string& name : inputs_) {
    read.push_back(batch.at(name));
    given += (given.empty() ? "" : ", ") + name + " " + describe_tensor(read.back());
  }
  std::vector<at::Tensor> made;
  try {
    made = forward(read);
  } catch (const Error&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    if (is_out_of_memory(error)) throw;
    throw Error(file_ + ": its forward failed for " + given + " on " + read.front().device().str() +
                ": " + error_text(error));
  }
  if (made.size() != outputs_.size())
    throw Error(file_ + ": it returned " + std::to_string(made.size()) + " tensors, but " +
                std::to_string(outputs_.size()) + " outputs were named; give one name for each");
  for (std::size_t i = 0; i < made.size(); ++i) batch.set(outputs_[i], std::move(made[i]));
}

FrozenStage make_stage(std::shared_ptr<Imported> module) {
  module->eval();
  return {module, [module](Batch& batch) { module->run(batch); }};
}

std::string describe_tensor(const at::Tensor& tensor) {
  return dtype_name(tensor.scalar_type()) + c10::str(tensor.sizes());
}

std::string error_text(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch != nullptr ? torch->what_without_backtrace() : error.what();
}

std::string failure_reason(const std::exception& error) {
  const std::string what = error_text(error);
  return what.substr(0, std::min(what.find('\n'), what.find(" This is an internal miniz error")));
}

}  // namespace slipstream
