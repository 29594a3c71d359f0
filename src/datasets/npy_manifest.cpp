#include "datasets/npy_manifest.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/files.h"
#include "core/fingerprint.h"
#include "core/json_fields.h"
#include "core/plain_message.h"
#include "datasets/skipped_json.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t kHexDigits = 16;

FieldKind parse_kind(const std::string& text) {
  for (const FieldKind kind :
       {FieldKind::image, FieldKind::mask, FieldKind::label, FieldKind::other, FieldKind::boxes}) {
    if (to_string(kind) == text) return kind;
  }
  throw Error("there is no kind '" + printable_name(text) + "'");
}

DType dtype_named(const std::string& text) {
  for (const DType dtype : {DType::uint8, DType::int32, DType::int64, DType::float32}) {
    if (to_string(dtype) == text) return dtype;
  }
  throw Error("there is no type '" + printable_name(text) + "'");
}

Json to_json(const FieldSpec& field) {
  Json shape = Json::array();
  for (std::size_t i = 0; i < field.shape.rank; ++i) shape.push_back(field.shape[i]);
  return {{"name", field.name},
          {"kind", to_string(field.kind)},
          {"dtype", to_string(field.dtype)},
          {"shape", std::move(shape)},
          {"classes", field.classes}};
}

FieldSpec parse_field(const Json& json) {
  FieldSpec field;
  field.name = json.at("name").get<std::string>();
  if (!is_npy_name(field.name))
    throw Error("a field's name, '" + printable_name(field.name) + "', is not a file's");
  field.kind = parse_kind(json.at("kind").get<std::string>());
  field.dtype = dtype_named(json.at("dtype").get<std::string>());
  field.classes = json.at("classes").get<std::int64_t>();
  for (const Json& dim : json.at("shape")) {
    if (field.shape.rank + 1 == Shape::kMaxRank) throw Error("a field has too many dimensions");
    field.shape.dims[field.shape.rank++] = dim.get<std::int64_t>();
  }
  return field;
}

std::uint64_t compute_digest(const std::string& text) {
  std::uint64_t digest = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, digest, 16);
  if (error != std::errc() || stop != end || text.size() != kHexDigits)
    throw Error("'" + printable_name(text) + "' is not a digest");
  return digest;
}

std::vector<std::uint64_t> parse_block(const Json& json, std::size_t fields) {
  std::vector<std::uint64_t> digests;
  if (json.is_null()) return digests;
  for (const Json& digest : json) digests.push_back(compute_digest(digest.get<std::string>()));
  if (digests.size() != fields) throw Error("a block does not have one digest for each field");
  return digests;
}

NpyManifest parsed(const Json& json) {
  NpyManifest manifest;
  const Json& settings = json.at("settings");
  manifest.settings = settings.dump();
  manifest.samples = settings.at("samples").get<std::size_t>();
  manifest.samples_per_block = settings.at("samples_per_block").get<std::size_t>();
  for (const Json& field : settings.at("fields")) manifest.fields.push_back(parse_field(field));
  for (const Json& block : json.at("blocks"))
    manifest.blocks.push_back(parse_block(block, manifest.fields.size()));
  manifest.skipped = skipped_in(json);
  const std::size_t block = manifest.samples_per_block;
  if (manifest.fields.empty() || manifest.samples == 0 || block == 0 ||
      manifest.blocks.size() != (manifest.samples - 1) / block + 1)
    throw Error("its numbers of samples, blocks and fields do not fit together");
  return manifest;
}

}  // namespace

std::size_t NpyManifest::written() const {
  return static_cast<std::size_t>(std::count_if(
      blocks.begin(), blocks.end(), [](const auto& digests) { return !digests.empty(); }));
}

std::size_t NpyManifest::block_end(std::size_t block) const {
  return std::min(samples, block_begin(block) + samples_per_block);
}

fs::path manifest_path(const fs::path& dir) { return dir / "manifest.json"; }

fs::path lock_path(const fs::path& dir) { return dir / ".convert.lock"; }

fs::path npy_path(const fs::path& dir, const std::string& field) { return dir / (field + ".npy"); }

bool is_npy_name(const std::string& field) {
  constexpr const char* kTaken =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !field.empty() && field[0] != '.' && field.find_first_not_of(kTaken) == std::string::npos;
}

std::string npy_settings(const NpyManifest& manifest, const std::string& more) {
  Json fields = Json::array();
  for (const FieldSpec& field : manifest.fields) fields.push_back(to_json(field));
  Json settings = {{"form", "npy"},
                   {"samples", manifest.samples},
                   {"samples_per_block", manifest.samples_per_block},
                   {"fields", std::move(fields)}};
  settings.update(json::parsed(more, "the settings"));
  return settings.dump();
}

std::optional<Json> find_manifest(const fs::path& dir) {
  std::error_code failed;
  if (!fs::exists(manifest_path(dir), failed)) return std::nullopt;
  return json::parsed_or_discarded(read_text(manifest_path(dir)));
}

std::optional<NpyManifest> find_npy_manifest(const fs::path& dir) {
  const fs::path path = manifest_path(dir);
  const Json json = find_manifest(dir).value_or(Json());
  const Json::json_pointer form("/settings/form");
  if (!json.contains(form) || json.at(form) != "npy") return std::nullopt;
  require_manifest_version(path, json);
  const std::string what = "'" + path.string() + "' is damaged: ";
  try {
    return parsed(json);
  } catch (const Json::exception& error) {
    throw Error(what + json_problem(error));
  } catch (const Error& error) {
    throw Error(what + error.what());
  }
}

void require_manifest_version(const fs::path& path, const Json& manifest) {
  const Json version = manifest.value("version", Json());
  if (version == kManifestVersion) return;
  throw Error("'" + path.string() + "' " +
              (version.is_null() ? "has no version" : "is of version " + version.dump()) +
              ", but this program reads version " + std::to_string(kManifestVersion) +
              ": use the program that wrote it, or convert the data again");
}

void require_complete_shards(const fs::path& dir) {
  const Json json = find_manifest(dir).value_or(Json());
  const auto number = [&](const char* at) {
    const Json::json_pointer pointer(at);
    const bool is_there = json.contains(pointer) && json.at(pointer).is_number_unsigned();
    return is_there ? json.at(pointer).get<std::size_t>() : 0;
  };
  const std::size_t samples = number("/settings/samples");
  const std::size_t a_shard = number("/settings/samples_per_shard");
  if (samples == 0 || a_shard == 0 || !json.contains("shards")) return;
  const std::size_t shards = (samples - 1) / a_shard + 1;
  if (json.at("shards").size() >= shards) return;
  throw Refused("the conversion in '" + dir.string() +
                "' is not finished: " + std::to_string(json.at("shards").size()) + " of " +
                std::to_string(shards) + " shards; run the same convert again");
}

void write_npy_manifest(const fs::path& dir, const NpyManifest& manifest) {
  Json blocks = Json::array();
  for (const std::vector<std::uint64_t>& digests : manifest.blocks) {
    Json& block = blocks.emplace_back();
    for (const std::uint64_t digest : digests) block.push_back(to_hex(digest));
  }
  Json json = {{"version", kManifestVersion},
               {"settings", json::parsed(manifest.settings, "the settings")},
               {"blocks", std::move(blocks)}};
  if (!manifest.skipped.empty()) json["skipped"] = to_json(manifest.skipped);
  write_own_file(manifest_path(dir), json.dump(1) + "\n");
}

}  // namespace slipstream
