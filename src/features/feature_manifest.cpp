#include "features/feature_manifest.h"

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include "core/environment.h"
#include "core/files.h"
#include "core/fingerprint.h"
#include "core/json_fields.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using json::Json;

constexpr std::int64_t kFormat = 1;
constexpr const char* kFormatKey = "slipstream_features";
constexpr std::uint64_t kMostRecordBytes = std::uint64_t{1} << 40;

void take_shape(const Json& value, const std::string& path, std::vector<std::int64_t>& out,
                json::Problems& problems) {
  if (!value.is_array()) return json::must_be(path, "a list of numbers", value, problems);
  for (const Json& side : value) {
    std::int64_t dim = 0;
    json::take(side, path, dim, problems);
    if (dim < 0) json::must_be(path, "a list of numbers that are not negative", side, problems);
    out.push_back(std::max<std::int64_t>(dim, 0));
  }
}

FeatureField take_field(const Json& value, const std::string& path, json::Problems& problems) {
  json::Fields keys(value, path, "the field", problems);
  FeatureField field;
  if (const Json* name = keys.find_required("name"))
    json::take(*name, keys.full_path("name"), field.name, problems);
  if (keys.is_object() && field.name.empty()) problems.push_back(path + ".name must not be empty");
  if (const Json* dtype = keys.find_required("dtype")) {
    const auto type =
        dtype->is_string() ? parse_torch_name(dtype->get<std::string>()) : std::nullopt;
    if (!type) keys.must_be("dtype", "PyTorch's name of a type, such as \"float32\"", *dtype);
    field.type = type.value_or(field.type);
  }
  if (const Json* shape = keys.find_required("shape"))
    take_shape(*shape, keys.full_path("shape"), field.shape, problems);
  keys.refuse_others();
  const std::uint64_t too_many = kMostRecordBytes + 1;
  field.bytes = std::min(tensor_bytes(field.type, field.shape).value_or(too_many), too_many);
  return field;
}

std::vector<FeatureField> take_fields(const Json& value, const std::string& path,
                                      json::Problems& problems) {
  std::vector<FeatureField> fields;
  if (!value.is_array()) {
    json::must_be(path, "a list of fields", value, problems);
    return fields;
  }
  std::set<std::string> names;
  std::uint64_t bytes = 0;
  for (const Json& each : value) {
    const std::string at = path + "[" + std::to_string(fields.size()) + "]";
    fields.push_back(take_field(each, at, problems));
    if (!names.insert(fields.back().name).second)
      problems.push_back(at + ".name is that of an earlier field");
    bytes = std::min(bytes + fields.back().bytes, kMostRecordBytes + 1);
  }
  if (bytes == 0) problems.push_back(path + " must have at least one value");
  if (bytes > kMostRecordBytes) problems.push_back(path + " must have at most 1 TiB of values");
  return fields;
}

Json to_json(const std::vector<FeatureField>& fields) {
  Json list = Json::array();
  for (const FeatureField& field : fields)
    list.push_back(
        {{"name", field.name}, {"dtype", torch_name(field.type)}, {"shape", field.shape}});
  return list;
}

/// Returns the key without line ends and blanks between its parts, so that they do not matter.
std::string normal_key(const std::string& key) {
  return json::parsed(key, "the key of the features").dump();
}

}  // namespace

std::vector<FeatureField> parse_feature_fields(std::string_view text) {
  const std::string what = "the description of the features";
  json::Problems problems;
  const Json value = json::parsed(text, what);
  std::vector<FeatureField> fields = take_fields(value, "fields", problems);
  json::refuse_document(what, problems);
  return fields;
}

std::string fields_json(const std::vector<FeatureField>& fields) { return to_json(fields).dump(); }

std::string fields_text(const std::vector<FeatureField>& fields) {
  std::string text;
  for (const FeatureField& field : fields) {
    text += (text.empty() ? "" : ", ") + printable_name(field.name) + ": " +
            std::string(torch_name(field.type)) + " [";
    for (std::size_t i = 0; i < field.shape.size(); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(field.shape[i]);
    text += "]";
  }
  return text;
}

std::uint64_t FeatureManifest::record_bytes() const {
  std::uint64_t bytes = 0;
  for (const FeatureField& field : fields) bytes += field.bytes;
  return bytes;
}

std::uint64_t FeatureManifest::seed() const {
  const std::string list = fields_json(fields);
  const std::uint64_t seed = chain64(kFormat, fingerprint(key.data(), key.size()));
  return chain64(seed, fingerprint(list.data(), list.size()));
}

std::string FeatureManifest::folder_name() const {
  return to_hex(fingerprint(key.data(), key.size()));
}

std::string FeatureManifest::to_json() const {
  const Json manifest = {{kFormatKey, kFormat},
                         {"library", library},
                         {"created", created},
                         {"fields", slipstream::to_json(fields)},
                         {"key", json::parsed(key, "the key")}};
  return manifest.dump(2) + "\n";
}

FeatureManifest make_feature_manifest(const std::string& key, std::string_view fields) {
  FeatureManifest manifest;
  manifest.key = normal_key(key);
  manifest.fields = parse_feature_fields(fields);
  manifest.library = slipstream_version();
  manifest.created = utc_text(std::time(nullptr));
  // A key that is nested almost too deeply could be written but not read again.
  return parse_feature_manifest(manifest.to_json());
}

FeatureManifest parse_feature_manifest(std::string_view text) {
  const std::string what = "this manifest";
  const Json value = json::parsed(text, what);
  json::Problems problems;
  json::Fields keys(value, "", what, problems);
  FeatureManifest manifest;
  std::int64_t format = 0;
  if (const Json* found = keys.find_required(kFormatKey))
    json::take(*found, kFormatKey, format, problems);
  // Other formats may have other keys, so nothing else is reported for them.
  if (format != kFormat && problems.empty())
    problems.push_back("its format is version " + std::to_string(format) +
                       "; this library reads version " + std::to_string(kFormat));
  json::refuse_document(what, problems);
  if (const Json* library = keys.find_required("library"))
    json::take(*library, "library", manifest.library, problems);
  if (const Json* created = keys.find_required("created"))
    json::take(*created, "created", manifest.created, problems);
  if (const Json* fields = keys.find_required("fields"))
    manifest.fields = take_fields(*fields, "fields", problems);
  if (const Json* key = keys.find_required("key")) manifest.key = key->dump();
  keys.refuse_others();
  json::refuse_document(what, problems);
  return manifest;
}

FeatureManifest read_feature_manifest(const std::filesystem::path& folder) try {
  return parse_feature_manifest(read_text(folder / kFeatureManifest));
} catch (const Error& error) {
  throw Refused("the features in '" + folder.string() + "' cannot be used: " + error.what() +
                "\nname another folder, or remove these features: slipstream features prune '" +
                folder.parent_path().string() + "' --key " + folder.filename().string());
}

}  // namespace slipstream
