#include "datasets/disk_manifest.h"

#include <nlohmann/json.hpp>

#include "core/files.h"
#include "core/json_fields.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
const char* const kVersionKey = "slipstream_disk_cache";

}  // namespace

std::string disk_manifest(std::size_t samples, const std::vector<FieldSpec>& fields,
                          const std::string& identity) {
  Json list = Json::array();
  for (const FieldSpec& field : fields) {
    list.push_back(field.name + ": " + std::string(to_string(field.kind)) + ", " +
                   std::string(to_string(field.dtype)) + ", " + to_string(field.shape));
  }
  const Json manifest = {{kVersionKey, kVersion},
                         {"samples", samples},
                         {"fields", std::move(list)},
                         {"identity", identity}};
  // File names need not be UTF-8, but JSON must be: invalid bytes are replaced.
  return manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void check_disk_manifest(const std::filesystem::path& path, const std::string& expected) {
  const std::string found = read_text(path);
  if (found == expected) return;
  const Json theirs = json::parsed_or_discarded(found);
  const Json ours = json::parsed(expected, "the manifest");
  constexpr const char* kRemedy = "; name another folder, or remove this one";
  if (!theirs.is_object() || !theirs.contains(kVersionKey) ||
      theirs[kVersionKey] != ours[kVersionKey]) {
    throw Refused("'" + path.string() + "' is not the manifest of a disk cache of version " +
                  std::to_string(kVersion) + kRemedy);
  }
  std::string differences;
  for (const auto& [key, value] : ours.items()) {
    const Json other = theirs.value(key, Json());
    if (other != value) differences += "\n  " + key + ": " + other.dump() + ", not " + value.dump();
  }
  throw Refused("'" + path.parent_path().string() + "' holds the disk cache of another data set" +
                kRemedy + differences);
}

}  // namespace slipstream
