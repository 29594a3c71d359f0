#include "train/stored_tensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/fingerprint.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::array kTypes = {std::pair{at::kBool, StoredType::boolean},
                               std::pair{at::kByte, StoredType::uint8},
                               std::pair{at::kChar, StoredType::int8},
                               std::pair{at::kFloat8_e4m3fn, StoredType::float8_e4m3fn},
                               std::pair{at::kFloat8_e5m2, StoredType::float8_e5m2},
                               std::pair{at::kShort, StoredType::int16},
                               std::pair{at::kUInt16, StoredType::uint16},
                               std::pair{at::kHalf, StoredType::float16},
                               std::pair{at::kBFloat16, StoredType::bfloat16},
                               std::pair{at::kInt, StoredType::int32},
                               std::pair{at::kUInt32, StoredType::uint32},
                               std::pair{at::kFloat, StoredType::float32},
                               std::pair{at::kLong, StoredType::int64},
                               std::pair{at::kUInt64, StoredType::uint64},
                               std::pair{at::kDouble, StoredType::float64}};

constexpr std::size_t kMostNamed = 8;

std::string shape_text(at::IntArrayRef shape) {
  std::string text;
  for (const std::int64_t side : shape) text += (text.empty() ? "" : " x ") + std::to_string(side);
  return text.empty() ? "scalar" : text;
}

void add_names(const std::string& what, const std::vector<std::string>& names,
               std::string& message) {
  if (names.empty()) return;
  message += "\n  " + what + ": ";
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i)
    message += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMostNamed)
    message += " and " + std::to_string(names.size() - kMostNamed) + " more";
}

}  // namespace

std::uint64_t fingerprint_of(const NamedTensor& tensor) {
  const at::Tensor& values = tensor.tensor;
  std::uint64_t sum = fingerprint(tensor.name.data(), tensor.name.size());
  sum = chain64(sum, static_cast<std::uint64_t>(values.scalar_type()));
  for (const std::int64_t side : values.sizes())
    sum = chain64(sum, static_cast<std::uint64_t>(side));
  return chain64(sum, fingerprint(values.const_data_ptr(), values.nbytes()));
}

std::uint64_t store_tensors(const std::vector<NamedTensor>& tensors,
                            const std::filesystem::path& path) {
  std::uint64_t sum = 0;
  std::vector<at::Tensor> on_host;
  std::vector<TensorToStore> stored;
  for (const auto& [name, tensor] : tensors) {
    const auto type = std::find_if(
        kTypes.begin(), kTypes.end(),
        [&tensor = tensor](const auto& known) { return known.first == tensor.scalar_type(); });
    if (type == kTypes.end())
      throw Error("cannot write " + path.string() + ": tensor '" + name + "' is " +
                  at::toString(tensor.scalar_type()) + ", which a .safetensors file cannot hold");
    const at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
    on_host.push_back(values);
    sum += fingerprint_of({name, values});
    stored.push_back({name,
                      type->second,
                      values.sizes().vec(),
                      {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()}});
  }
  write_safetensors(path, std::move(stored), {{"format", "pt"}});
  return sum;
}

at::Tensor stored_tensor(const SafetensorsFile& file, const StoredTensor& stored) {
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const auto& known) { return known.second == stored.type; });
  const at::Tensor tensor = at::empty(stored.shape, at::TensorOptions(type->first));
  file.read(stored, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
  return tensor;
}

LeftOutWeights differences_from(const StoredTensors& stored, const std::vector<NamedTensor>& here) {
  LeftOutWeights differences;
  std::set<std::string> known;
  for (const auto& [name, tensor] : here) {
    known.insert(name);
    const StoredTensor* const there = stored.find(name);
    if (there == nullptr)
      differences.missing.push_back(name);
    else if (tensor.sizes() != at::IntArrayRef(there->shape))
      differences.other_shape.push_back(name + " (" + shape_text(tensor.sizes()) + " here, " +
                                        shape_text(there->shape) + " there)");
  }
  for (const StoredTensor& there : stored.tensors)
    if (!known.contains(there.name)) differences.unexpected.push_back(there.name);
  return differences;
}

std::string text_of(const LeftOutWeights& differences) {
  std::string text;
  add_names("not in the file", differences.missing, text);
  add_names("not in the model", differences.unexpected, text);
  add_names("of another shape", differences.other_shape, text);
  return text;
}

}  // namespace slipstream
