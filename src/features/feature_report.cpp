#include "features/feature_report.h"

#include "core/environment.h"
#include "core/json_fields.h"
#include "core/number_text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using json::Json;

constexpr std::size_t kLongestValue = 300;

std::string bytes_text(std::uint64_t bytes) { return size_text(static_cast<double>(bytes)); }

std::string value_text(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  // The cut may be inside a character, which printable_name() then replaces.
  if (text.size() <= kLongestValue) return printable_name(text);
  return printable_name(text.substr(0, kLongestValue)) + " ...";
}

std::string dependencies_text(const std::string& key) {
  const Json value = json::parsed(key, "the key");
  if (!value.is_object()) return "  depends on " + value_text(value) + "\n";
  std::string text = "  depends on\n";
  for (const auto& [name, part] : value.items())
    text += "    " + printable_name(name) + ": " + value_text(part) + "\n";
  return text;
}

std::string key_text(const FeatureKey& key) {
  std::string text = key.name + ": " + format_count(key.records, "record");
  if (key.manifest) text += " of " + bytes_text(key.manifest->record_bytes());
  text += ", " + bytes_text(key.bytes) + ", last used " + utc_text(key.last_used) + "\n";
  if (!key.problem.empty()) text += "  " + printable(key.problem) + "\n";
  if (!key.manifest) return text;
  text += "  created " + printable_name(key.manifest->created) + " by slipstream " +
          printable_name(key.manifest->library) + "\n";
  text += "  fields " + fields_text(key.manifest->fields) + "\n";
  return text + dependencies_text(key.manifest->key);
}

Json to_json(const FeatureKey& key) {
  Json value = {{"name", key.name},
                {"records", key.records},
                {"bytes", key.bytes},
                {"last_used", utc_text(key.last_used)}};
  if (!key.problem.empty()) value["problem"] = key.problem;
  if (key.manifest) value["manifest"] = json::parsed(key.manifest->to_json(), "the manifest");
  return value;
}

}  // namespace

std::string feature_keys_text(const std::filesystem::path& folder,
                              const std::vector<FeatureKey>& keys) {
  std::uint64_t bytes = 0;
  for (const FeatureKey& key : keys) bytes += key.bytes;
  std::string text = printable_name(folder.string()) + ": " + format_count(keys.size(), "key") +
                     ", " + bytes_text(bytes) + "\n";
  for (const FeatureKey& key : keys) text += key_text(key);
  return text;
}

std::string feature_keys_json(const std::vector<FeatureKey>& keys) {
  Json list = Json::array();
  for (const FeatureKey& key : keys) list.push_back(to_json(key));
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace slipstream
