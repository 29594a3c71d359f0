#include "engine/stored_tensors.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "core/fingerprint.h"
#include "core/json_fields.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

struct Type {
  at::ScalarType here;
  StoredType stored;
};
constexpr std::array kTypes = {Type{at::kBool, StoredType::boolean},
                               Type{at::kByte, StoredType::uint8},
                               Type{at::kChar, StoredType::int8},
                               Type{at::kFloat8_e4m3fn, StoredType::float8_e4m3fn},
                               Type{at::kFloat8_e5m2, StoredType::float8_e5m2},
                               Type{at::kShort, StoredType::int16},
                               Type{at::kUInt16, StoredType::uint16},
                               Type{at::kHalf, StoredType::float16},
                               Type{at::kBFloat16, StoredType::bfloat16},
                               Type{at::kInt, StoredType::int32},
                               Type{at::kUInt32, StoredType::uint32},
                               Type{at::kFloat, StoredType::float32},
                               Type{at::kLong, StoredType::int64},
                               Type{at::kUInt64, StoredType::uint64},
                               Type{at::kDouble, StoredType::float64}};

constexpr std::size_t kMostNamed = 8;

std::string shape_text(at::IntArrayRef shape) {
  std::string text;
  for (const std::int64_t side : shape) text += (text.empty() ? "" : " x ") + std::to_string(side);
  return text.empty() ? "scalar" : text;
}

const Type* find_type(at::ScalarType here) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const Type& type) { return type.here == here; });
  return found == kTypes.end() ? nullptr : &*found;
}

const Type& find_type(StoredType stored) {
  return *std::find_if(kTypes.begin(), kTypes.end(),
                       [&](const Type& type) { return type.stored == stored; });
}

std::string dtype_text(at::ScalarType here) {
  const Type* const type = find_type(here);
  if (here == at::kComplexFloat) return "complex64";
  if (here == at::kComplexDouble) return "complex128";
  return type == nullptr ? at::toString(here) : std::string(torch_name(type->stored));
}

bool is_plain_float(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 || type == at::kFloat || type == at::kDouble;
}

/// Returns a text such as "fc.weight (A here, B there)".
std::string difference(const std::string& name, const std::string& here, const std::string& there) {
  return printable_name(name) + " (" + here + " here, " + there + " there)";
}

bool is_utf8(const std::string& text) {
  try {
    // dump() throws for a text that is not UTF-8.
    static_cast<void>(json::Json(text).dump());
    return true;
  } catch (const json::Json::exception&) {
    return false;
  }
}

/// Returns why a .safetensors file cannot store a tensor; "" if it can.
std::string why_unstorable(const NamedTensor& each) {
  if (each.name == kMetadataKey)
    return "has the name that .safetensors files reserve for metadata; rename it";
  if (!is_utf8(each.name)) return "has a name that is not UTF-8; rename it";
  if (each.tensor.layout() != at::kStrided)
    return "is " + c10::str(each.tensor.layout()) +
           ", which a .safetensors file cannot store; convert it with to_dense()";
  if (find_type(each.tensor.scalar_type()) == nullptr)
    return "is " + dtype_text(each.tensor.scalar_type()) +
           ", which a .safetensors file cannot store; store it in another dtype, such as its "
           "view_as_real(), or, if it can be computed again, register it in Python as a buffer "
           "with persistent=False";
  return "";
}

void add_names(const std::string& what, const std::vector<std::string>& names,
               std::string& message) {
  if (names.empty()) return;
  message += "\n  " + what + ": ";
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i)
    message += (i > 0 ? ", " : "") + printable_name(names[i]);
  if (names.size() > kMostNamed)
    message += " and " + std::to_string(names.size() - kMostNamed) + " more";
}

}  // namespace

std::uint64_t tensor_fingerprint(const NamedTensor& tensor) {
  const at::Tensor& values = tensor.tensor;
  std::uint64_t sum = fingerprint(tensor.name.data(), tensor.name.size());
  sum = chain64(sum, static_cast<std::uint64_t>(values.scalar_type()));
  for (const std::int64_t side : values.sizes())
    sum = chain64(sum, static_cast<std::uint64_t>(side));
  return chain64(sum, fingerprint(values.const_data_ptr(), values.nbytes()));
}

std::vector<std::string> unstorable(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> problems;
  for (const NamedTensor& each : tensors)
    if (const std::string why = why_unstorable(each); !why.empty())
      problems.push_back("tensor '" + printable_name(each.name) + "' " + why);
  return problems;
}

std::uint64_t store_tensors(const std::vector<NamedTensor>& tensors,
                            const std::filesystem::path& path) {
  std::uint64_t sum = 0;
  std::vector<at::Tensor> on_host;
  std::vector<TensorToStore> stored;
  const std::vector<std::string> problems = unstorable(tensors);
  if (!problems.empty()) throw Error("cannot write " + path.string() + ": " + problems.front());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
    on_host.push_back(values);
    sum += tensor_fingerprint({name, values});
    stored.push_back({name,
                      find_type(tensor.scalar_type())->stored,
                      values.sizes().vec(),
                      {static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()}});
  }
  write_safetensors(path, stored, {{"format", "pt"}});
  return sum;
}

at::Tensor stored_tensor(const SafetensorsFile& file, const StoredTensor& stored) {
  const at::Tensor tensor = at::empty(stored.shape, at::TensorOptions(find_type(stored.type).here));
  file.read(stored, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
  return tensor;
}

bool is_loadable(const StoredTensor& stored, const at::Tensor& here, Conversion conversion) {
  if (here.sizes() != at::IntArrayRef(stored.shape)) return false;
  const at::ScalarType there = find_type(stored.type).here, type = here.scalar_type();
  return type == there || (conversion == Conversion::between_floats && is_plain_float(type) &&
                           is_plain_float(there));
}

LoadedWeights differences_from(const StoredTensors& stored, const std::vector<NamedTensor>& here,
                               Conversion conversion) {
  LoadedWeights differences;
  std::set<std::string> known;
  for (const auto& [name, tensor] : here) {
    known.insert(name);
    const StoredTensor* const there = stored.find(name);
    if (there == nullptr) {
      differences.missing.push_back(name);
      continue;
    }
    const Type& type = find_type(there->type);
    if (tensor.sizes() != at::IntArrayRef(there->shape))
      differences.other_shape.push_back(
          difference(name, shape_text(tensor.sizes()), shape_text(there->shape)));
    else if (tensor.scalar_type() != type.here)
      (is_loadable(*there, tensor, conversion) ? differences.converted : differences.other_dtype)
          .push_back(difference(name, dtype_text(tensor.scalar_type()),
                                std::string(torch_name(type.stored))));
  }
  for (const StoredTensor& there : stored.tensors)
    if (!known.contains(there.name)) differences.unexpected.push_back(there.name);
  return differences;
}

std::string to_text(const LoadedWeights& differences) {
  std::string text;
  add_names("not in the file", differences.missing, text);
  add_names("not in the model", differences.unexpected, text);
  add_names("of another shape", differences.other_shape, text);
  add_names("of another dtype, which is not converted", differences.other_dtype, text);
  return text;
}

}  // namespace slipstream
