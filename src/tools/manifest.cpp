#include "tools/manifest.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/files.h"
#include "core/fingerprint.h"
#include "core/json_fields.h"
#include "core/plain_message.h"
#include "datasets/class_names.h"
#include "datasets/npy_manifest.h"
#include "datasets/skipped_json.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kBlock = std::size_t{1} << 20;

Json to_json(const Manifest::Shard& shard) {
  Json json = {{"file", shard.file},
               {"samples", shard.samples},
               {"bytes", shard.bytes},
               {"digest", shard.digest}};
  if (!shard.skipped.empty()) json["skipped"] = to_json(shard.skipped);
  return json;
}

std::uint64_t count_in(const Json& shard, const char* key) {
  const Json& value = shard.at(key);
  if (!value.is_number_unsigned())
    throw Error(std::string("'") + key + "' of a shard is not a count");
  return value.get<std::uint64_t>();
}

std::string text_in(const Json& shard, const char* key) {
  const Json& value = shard.at(key);
  if (!value.is_string()) throw Error(std::string("'") + key + "' of a shard is not a string");
  return value.get<std::string>();
}

Manifest parsed(const Json& json) {
  Manifest manifest;
  if (!json.at("settings").is_object()) throw Error("its settings are not an object");
  if (!json.at("shards").is_array()) throw Error("its shards are not a list");
  manifest.settings = json.at("settings").dump();
  for (const Json& shard : json.at("shards")) {
    const std::string file = text_in(shard, "file");
    if (file.empty() || fs::path(file).filename() != file)
      throw Error("'" + printable_name(file) + "' is not the name of a shard");
    if (manifest.find(file) != nullptr)
      throw Error("it lists '" + printable_name(file) + "' twice");
    manifest.shards.push_back({file, count_in(shard, "samples"), count_in(shard, "bytes"),
                               text_in(shard, "digest"), skipped_in(shard)});
  }
  return manifest;
}

std::string shown(const Json& value) {
  constexpr std::size_t kMost = 400;
  std::string text = value.is_null() ? "the default" : value.dump();
  if (text.size() > kMost) text = text.substr(0, kMost) + " ...";
  return text;
}

Json find_member(const Json& of, const std::string& key) {
  return of.is_object() && of.contains(key) ? of.at(key) : Json();
}

/// Returns the keys of both objects.
Json all_keys(const Json& there, const Json& wanted) {
  Json keys = wanted.is_object() ? wanted : Json::object();
  if (there.is_object()) keys.update(there);
  return keys;
}

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  return text;
}

/// Describes the first of `what` (objects with names) that differs between two lists. Returns "" if
/// they differ in another way.
std::string first_difference(const std::string& what, const Json& there, const Json& wanted) {
  if (!there.is_array() || !wanted.is_array()) return "";
  for (std::size_t i = 0; i < std::max(there.size(), wanted.size()); ++i) {
    const bool is_more = i >= wanted.size();
    const std::string name = shown(find_member((is_more ? there : wanted)[i], "name"));
    const std::string place = joined({"its ", what, " ", std::to_string(i + 1)});
    if (is_more || i >= there.size())
      return joined({place, ", ", name, ", is ", is_more ? "one too many" : "missing"});
    const std::string old = shown(find_member(there[i], "name"));
    if (old != name) return joined({place, " is ", old, ", wanted: ", name});
    const Json keys = all_keys(there[i], wanted[i]);
    for (const auto& item : keys.items()) {
      const Json a = find_member(there[i], item.key()), b = find_member(wanted[i], item.key());
      if (a != b)
        return joined(
            {place, ", ", name, ", has the ", item.key(), " ", shown(a), ", wanted: ", shown(b)});
    }
  }
  return "";
}

std::string setting_differs(const std::string& key, const Json& there, const Json& wanted) {
  std::string found;
  if (key == "transforms")
    found = first_difference("transform", find_member(there, "transforms"),
                             find_member(wanted, "transforms"));
  if (key == "fields") found = first_difference("field", there, wanted);
  if (!found.empty()) return found;
  return "its " + key + ": " + shown(there) + ", wanted: " + shown(wanted);
}

std::string names_differ(const Json& there, const Json& wanted) {
  using Names = std::vector<std::string>;
  const bool are_names =
      there.is_array() &&
      std::all_of(there.begin(), there.end(), [](const Json& each) { return each.is_string(); });
  if (!are_names) return "its manifest has no class names";
  if (!wanted.is_array()) return "its classes have names, but those of this data set do not";
  const std::string found = difference_of_names(there.get<Names>(), wanted.get<Names>());
  return "its class indices differ: " + found + (found.ends_with('\'') ? " as wanted" : "");
}

/// Describes the differences between two settings, one per line. Returns "" if they are equal.
std::string difference(const Json& there, const Json& wanted) {
  const Json keys = all_keys(there, wanted);
  std::string lines;
  for (const auto& item : keys.items()) {
    const std::string& key = item.key();
    const Json old = find_member(there, key), other = find_member(wanted, key);
    if (old == other) continue;
    if (key == "source")
      lines += "\n  it was made from other data: other files, names or labels";
    else if (key == "class_names")
      lines += "\n  " + names_differ(old, other);
    else
      lines += "\n  " + setting_differs(key, old, other);
  }
  return lines;
}

}  // namespace

const Manifest::Shard* Manifest::find(const std::string& file) const {
  const auto found = std::find_if(shards.begin(), shards.end(),
                                  [&](const Shard& shard) { return shard.file == file; });
  return found == shards.end() ? nullptr : &*found;
}

std::vector<SkippedSample> Manifest::skipped() const {
  SkippedSamples all;
  for (const Shard& shard : shards) all.add({0, shard.skipped});
  return all.samples;
}

bool has_manifest(const fs::path& dir) {
  const std::optional<Json> json = find_manifest(dir);
  return json && (json->is_discarded() || json->contains("settings"));
}

bool require_settings(const fs::path& dir, const std::string& settings) {
  const std::optional<Json> json = find_manifest(dir);
  if (!json) return false;
  if (!json->contains("settings"))
    throw Error("'" + manifest_path(dir).string() +
                "' is not a manifest of a conversion; give another folder");
  const std::string differs =
      difference(json->at("settings"), json::parsed(settings, "the settings"));
  if (differs.empty()) return true;
  throw Refused("'" + dir.string() + "' holds another conversion:" + differs +
                "\ngive another folder, or remove this one");
}

Manifest read_manifest(const fs::path& dir) {
  const fs::path path = manifest_path(dir);
  const auto fail = [&](const std::string& why) {
    throw Error("'" + path.string() + "' is not a manifest of a conversion: " + why +
                "; remove the folder and convert the data again");
  };
  const std::optional<Json> json = find_manifest(dir);
  if (!json) fail("there is no such file");
  if (!json->is_object()) fail("it is not a JSON object, or nested too deeply");
  require_manifest_version(path, *json);
  try {
    return parsed(*json);
  } catch (const Json::exception& error) {
    fail(json_problem(error));
  } catch (const Error& error) {
    fail(error.what());
  }
  return {};
}

void write_manifest(const fs::path& dir, const Manifest& manifest) {
  std::vector<Manifest::Shard> sorted = manifest.shards;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.file < b.file; });
  Json shards = Json::array();
  for (const Manifest::Shard& shard : sorted) shards.push_back(to_json(shard));
  const Json json = {{"version", kManifestVersion},
                     {"settings", json::parsed(manifest.settings, "the settings")},
                     {"shards", std::move(shards)}};
  write_own_file(manifest_path(dir), json.dump(2) + "\n");
}

std::string file_digest(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("cannot read '" + path.string() + "'");
  std::vector<char> block(kBlock);
  std::uint64_t digest = 0;
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    const auto got = static_cast<std::size_t>(file.gcount());
    if (got > 0) digest = chain64(digest, fingerprint(block.data(), got));
  }
  if (file.bad()) throw Error("cannot read '" + path.string() + "' to its end");
  return to_hex(digest);
}

}  // namespace slipstream
