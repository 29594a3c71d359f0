#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "core/json_fields.h"
#include "core/safetensors.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using json::Json;

struct TypeRow {
  StoredType type;
  std::string_view name;
  std::string_view torch_name;
  std::size_t bytes;
};
constexpr std::array kTypes = {TypeRow{StoredType::boolean, "BOOL", "bool", 1},
                               TypeRow{StoredType::uint8, "U8", "uint8", 1},
                               TypeRow{StoredType::int8, "I8", "int8", 1},
                               TypeRow{StoredType::float8_e4m3fn, "F8_E4M3", "float8_e4m3fn", 1},
                               TypeRow{StoredType::float8_e5m2, "F8_E5M2", "float8_e5m2", 1},
                               TypeRow{StoredType::int16, "I16", "int16", 2},
                               TypeRow{StoredType::uint16, "U16", "uint16", 2},
                               TypeRow{StoredType::float16, "F16", "float16", 2},
                               TypeRow{StoredType::bfloat16, "BF16", "bfloat16", 2},
                               TypeRow{StoredType::int32, "I32", "int32", 4},
                               TypeRow{StoredType::uint32, "U32", "uint32", 4},
                               TypeRow{StoredType::float32, "F32", "float32", 4},
                               TypeRow{StoredType::int64, "I64", "int64", 8},
                               TypeRow{StoredType::uint64, "U64", "uint64", 8},
                               TypeRow{StoredType::float64, "F64", "float64", 8}};

const TypeRow& find_row(StoredType type) {
  return *std::find_if(kTypes.begin(), kTypes.end(),
                       [&](const TypeRow& row) { return row.type == type; });
}

[[noreturn]] void fail(const std::string& name, const std::string& what) {
  throw Error("tensor '" + printable_name(name) + "' " + what);
}

const Json& member(const Json& tensor, const std::string& name, const char* key) {
  const auto found = tensor.find(key);
  if (found == tensor.end()) fail(name, std::string("has no \"") + key + "\"");
  return *found;
}

std::uint64_t whole(const Json& value, const std::string& name, const char* key) {
  const bool fits = json::is_integer(value) && value.get<std::int64_t>() >= 0;
  if (!fits) fail(name, std::string("has in \"") + key + "\" " + json::shown(value));
  return value.get<std::uint64_t>();
}

StoredTensor parse_tensor(const std::string& name, const Json& value) {
  if (!value.is_object()) fail(name, "is " + json::shown(value) + ", not an object");
  const Json& type = member(value, name, "dtype");
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& known) {
    return type.is_string() && type.get_ref<const std::string&>() == known.name;
  });
  if (row == kTypes.end()) fail(name, "has the dtype " + json::shown(type) + ", which is unknown");
  StoredTensor tensor;
  tensor.name = name;
  tensor.type = row->type;
  const Json& shape = member(value, name, "shape");
  if (!shape.is_array()) fail(name, "has the shape " + json::shown(shape));
  for (const Json& side : shape)
    tensor.shape.push_back(static_cast<std::int64_t>(whole(side, name, "shape")));
  const Json& offsets = member(value, name, "data_offsets");
  if (!offsets.is_array() || offsets.size() != 2)
    fail(name, "has the data_offsets " + json::shown(offsets) + ", not two numbers");
  tensor.offset = whole(offsets[0], name, "data_offsets");
  const std::uint64_t end = whole(offsets[1], name, "data_offsets");
  if (end < tensor.offset) fail(name, "has an end before its begin");
  tensor.bytes = end - tensor.offset;
  return tensor;
}

void check_bytes(const StoredTensor& tensor) {
  const auto bytes = tensor_bytes(tensor.type, tensor.shape);
  if (bytes == tensor.bytes) return;
  fail(tensor.name, "has " + std::to_string(tensor.bytes) + " bytes, which do not fit its shape");
}

std::map<std::string, std::string> parse_metadata(const Json& value) {
  if (!value.is_object()) throw Error("\"__metadata__\" is " + json::shown(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      throw Error("the value of '" + printable_name(key) + "' in \"__metadata__\" is " +
                  json::shown(text) + ", not a string");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

Json document(std::string_view json) {
  try {
    return json::parsed(json, "the header");
  } catch (const Refused& refused) {
    throw Error(refused.what());
  }
}

}  // namespace

std::string_view to_string(StoredType type) { return find_row(type).name; }
std::string_view torch_name(StoredType type) { return find_row(type).torch_name; }
std::size_t size_bytes(StoredType type) { return find_row(type).bytes; }

std::optional<StoredType> parse_torch_name(std::string_view name) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const TypeRow& known) { return known.torch_name == name; });
  return row == kTypes.end() ? std::nullopt : std::optional(row->type);
}

std::optional<std::uint64_t> tensor_bytes(StoredType type, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = size_bytes(type);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const std::int64_t side : shape)
    if (side < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(side), &bytes))
      return std::nullopt;
  return bytes;
}

const StoredTensor* StoredTensors::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

StoredTensors parse_safetensors_header(std::string_view json, std::uint64_t value_bytes) {
  const Json root = document(json);
  if (!root.is_object()) throw Error("the header is " + json::shown(root) + ", not an object");
  StoredTensors header;
  for (const auto& [name, value] : root.items()) {
    if (name == kMetadataKey)
      header.metadata = parse_metadata(value);
    else
      header.tensors.push_back(parse_tensor(name, value));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  std::uint64_t end = 0;
  for (const StoredTensor& tensor : header.tensors) {
    check_bytes(tensor);
    if (tensor.offset != end)
      fail(tensor.name, "begins at byte " + std::to_string(tensor.offset) +
                            " of the values, not at the end of the previous tensor, at " +
                            std::to_string(end));
    end += tensor.bytes;
  }
  if (end != value_bytes)
    throw Error("its tensors need " + std::to_string(end) + " bytes, but the file has " +
                std::to_string(value_bytes) + " for them" +
                (end > value_bytes ? ": it was truncated" : ""));
  return header;
}

}  // namespace slipstream
