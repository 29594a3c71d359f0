#include "slipstream/transforms/chain.h"

#include <optional>
#include <sstream>
#include <utility>

#include "core/files.h"
#include "slipstream/core/error.h"
#include "transforms/reader.h"
#include "transforms/torchvision_keys.h"
#include "transforms/units.h"

namespace slipstream {
namespace {

using chain::Json;
using chain::Presence;
using chain::Problems;
using chain::Reader;

constexpr std::int64_t kVersion = 1;

std::vector<std::string> known_operations() {
  std::vector<std::string> names;
  chain::any_operation([&](const auto& op) {
    names.emplace_back(op.kName);
    return false;
  });
  return names;
}

template <typename Op>
std::optional<AnyOp> read_parameters(Op op, Reader& reader, const std::string& path,
                                     Problems& problems) {
  const std::size_t before = problems.size();
  chain::visit_parameters(reader, op);
  reader.refuse_others();
  if (problems.size() != before) return std::nullopt;
  try {
    op.validate();
  } catch (const Refused& refused) {
    std::istringstream lines(refused.what());
    // An operation reports all of its problems, one per line. Each line gets the path.
    for (std::string line; std::getline(lines, line);)
      problems.push_back(std::string(path).append(": ").append(line));
    return std::nullopt;
  }
  return AnyOp(op);
}

void read_transform(const Json& value, const std::string& path, std::vector<NamedOp>& out,
                    Problems& problems) {
  Reader reader(value, path, problems);
  const std::size_t before = problems.size();
  std::string operation;
  reader("op", operation, Presence::required);
  if (problems.size() != before || !value.is_object()) return;
  std::string name = operation;
  reader("name", name, Presence::optional);
  const bool is_known = chain::any_operation([&](auto op) {
    if (op.kName != operation) return false;
    auto read = read_parameters(op, reader, path, problems);
    if (read) out.push_back({name, *std::move(read)});
    return true;
  });
  if (is_known) return;
  // Users of torchvision expect these two operations.
  const bool is_of_tensors = operation == "to_tensor" || operation == "to_image";
  problems.push_back(
      path + ".op: " +
      (is_of_tensors ? "there is no '" + operation + "', because batches are tensors already; " +
                           "for values of 0 to 1 write to_dtype with \"dtype\": \"float32\" and " +
                           "\"scale\": true"
                     : unknown_name("operation", operation, known_operations())));
}

void check_batch_ops(const std::vector<NamedOp>& chain, Problems& problems) {
  BatchOps ops;
  try {
    for (const NamedOp& each : chain) ops.take(each);
  } catch (const Refused& refused) {
    problems.emplace_back(refused.what());
  }
}

std::vector<NamedOp> read_chain(const Json& document, Problems& problems) {
  std::vector<NamedOp> chain;
  Reader reader(document, "", problems);
  reader.check_version(reader.find_required("version"), kVersion);
  reader("transforms", chain, Presence::optional);
  if (document.is_object() && !document.contains("transforms"))
    problems.emplace_back("transforms is missing: list the operations");
  reader.refuse_others();
  check_batch_ops(chain, problems);
  if (const auto problem = problem_of_units(chain)) problems.push_back(*problem);
  return chain;
}

Json written(const NamedOp& transform);

struct Writer {
  Json& json;

  template <typename T>
  void operator()(const char* key, const T& value, Presence) {
    json[key] = value;
  }
  void operator()(const char* key, Interpolation value, Presence) {
    json[key] = chain::to_string(value);
  }
  void operator()(const char* key, PaddingMode value, Presence) {
    json[key] = chain::to_string(value);
  }
  void operator()(const char* key, const Padding& value, Presence) {
    json[key] = value.left;
    if (value != Padding{value.left})
      json[key] = {value.left, value.top, value.right, value.bottom};
  }
  void operator()(const char* key, const chain::Fill& fill, Presence) {
    json[key] = fill.values;
    if (fill.values.size() == 1) json[key] = fill.values.front();
  }
  void operator()(const char* key, AutoAugmentPolicy value, Presence) {
    json[key] = chain::to_string(value);
  }
  void operator()(const char* key, DType, Presence) { json[key] = "float32"; }
  void operator()(const char* key, const Size& value, Presence) {
    json[key] = {value.height, value.width};
  }
  void operator()(const char* key, const ResizedSize& value, Presence need) {
    if (value.shorter_side != 0) (*this)(key, value.shorter_side, need);
    if (value.height != 0) (*this)(key, Size{value.height, value.width}, need);
    if (value.max_size != 0) (*this)("max_size", value.max_size, need);
  }
  void operator()(const char* key, const chain::Pair& pair, Presence) { json[key] = pair.values; }
  void operator()(const char* key, const chain::Shear& shear, Presence) {
    json[key] = shear.values;
  }
  void operator()(const char* key, const chain::KernelSize& size, Presence) {
    json[key] = size.side;
  }
  void operator()(const char* key, const chain::Weights& weights, Presence) {
    if (!weights.values.empty()) json[key] = weights.values;
  }
  void operator()(const char* key, const std::vector<NamedOp>& transforms, Presence) {
    json[key] = Json::array();
    for (const NamedOp& each : transforms) json[key].push_back(written(each));
  }
};

Json written(const NamedOp& transform) {
  Json json = {{"name", transform.name}};
  const bool is_known = chain::any_operation([&](auto op) {
    const auto* held = transform.op.get_if<decltype(op)>();
    if (held == nullptr) return false;
    op = *held;
    json["op"] = op.kName;
    Writer writer{json};
    chain::visit_parameters(writer, op);
    return true;
  });
  if (is_known) return json;
  throw Refused(
      "transform '" + transform.name + "' is '" + std::string(transform.op.name()) +
      "', which a file of transforms cannot hold: it supports only the library's own operations");
}

}  // namespace

void chain::read_transforms(const Json& list, const std::string& path, std::vector<NamedOp>& out,
                            Problems& problems) {
  for (std::size_t i = 0; i < list.size(); ++i)
    read_transform(list[i], path + "[" + std::to_string(i) + "]", out, problems);
}

std::vector<NamedOp> parse_chain(std::string_view text) {
  Problems problems;
  Json document = json::parsed(text, "these transforms");
  chain::leave_out_torchvision_keys(document, problems);
  std::vector<NamedOp> chain = read_chain(document, problems);
  json::refuse_document("these transforms", problems);
  return chain;
}

std::vector<NamedOp> load_chain(const std::filesystem::path& path) {
  const std::string text = read_given_text(path, kMostWrittenBytes);
  try {
    return parse_chain(text);
  } catch (const Error& error) {
    throw Refused("'" + path.string() + "': " + error.what());
  }
}

std::vector<NamedOp> load_chain_or_resize(const std::filesystem::path& path, std::int64_t size) {
  if (path.empty()) return {{"resize", Resize{{size, size}}}};
  return load_chain(path);
}

FieldSpec image_after(const std::vector<NamedOp>& chain) {
  FieldSpec image{"image", FieldKind::image, DType::uint8, {-1, -1, 3}, 0};
  for (const NamedOp& each : chain)
    if (each.op.touches(image.kind)) image = each.op.output(image);
  return image;
}

std::string to_json_text(const std::vector<NamedOp>& chain) {
  Json transforms = Json::array();
  for (const NamedOp& transform : chain) transforms.push_back(written(transform));
  const Json json = {{"version", kVersion}, {"transforms", std::move(transforms)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace slipstream
