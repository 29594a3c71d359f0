#include "datasets/npy_folder.h"

#include <algorithm>

#include "datasets/class_names.h"
#include "datasets/npy_header.h"
#include "datasets/stamped_file.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

/// Guesses the kind of an array. Returns `other` if the file is invalid, which npy_maps() then
/// reports.
FieldKind guess_kind(const fs::path& path) {
  NpyForm form;
  try {
    const StampedFile file(path);
    std::vector<std::byte> start(std::min<std::uint64_t>(kMaxNpyHeader, file.size()));
    file.read(0, start);
    form = npy_form(parse_npy_header(start));
  } catch (const Error&) {
    return FieldKind::other;
  }
  const bool is_integer = form.dtype != DType::float32;
  if (path.stem() == "boxes" && form.shape.rank == 3) return FieldKind::boxes;
  if (form.dtype == DType::uint8 && form.shape.rank == 4) return FieldKind::image;
  if (is_integer && form.shape.rank == 3) return FieldKind::mask;
  return is_integer && form.shape.rank == 1 ? FieldKind::label : FieldKind::other;
}

bool takes_classes(const std::string& name, FieldKind kind) {
  return name == "label" && (kind == FieldKind::label || kind == FieldKind::mask);
}

}  // namespace

std::shared_ptr<const Dataset> open_npy_folder(const fs::path& dir, const NpyManifest& manifest,
                                               std::int64_t classes) {
  if (!manifest.is_complete())
    throw Refused("the conversion in '" + dir.string() +
                  "' is not finished: " + std::to_string(manifest.written()) + " of " +
                  std::to_string(manifest.blocks.size()) +
                  " blocks are written; the same command continues where it stopped");
  std::vector<NpyField> fields;
  for (const FieldSpec& field : manifest.fields) {
    const bool is_unsaid = field.classes == 0 && takes_classes(field.name, field.kind);
    fields.push_back(
        {field.name, field.kind, npy_path(dir, field.name), is_unsaid ? classes : field.classes});
  }
  auto maps = npy_maps(fields);
  const std::vector<FieldSpec> found = maps->fields();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const FieldSpec& field = manifest.fields[i];
    if (maps->size() == manifest.samples && found[i].dtype == field.dtype &&
        found[i].shape == field.shape)
      continue;
    throw Error("'" + fields[i].file.string() + "' is not the file that '" +
                manifest_path(dir).string() + "' describes; convert the data again");
  }
  return with_class_names(std::move(maps), manifest_class_names(dir), dir);
}

std::shared_ptr<const Dataset> open_npy_files(const std::vector<fs::path>& files,
                                              std::int64_t classes) {
  std::vector<NpyField> fields;
  for (const fs::path& file : files) {
    const std::string name = file.stem().string();
    const FieldKind kind = guess_kind(file);
    fields.push_back({name, kind, file, takes_classes(name, kind) ? classes : 0});
  }
  return npy_maps(fields);
}

}  // namespace slipstream
