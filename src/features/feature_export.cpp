#include "features/feature_export.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/plain_message.h"
#include "datasets/npy_header.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

using Rows = std::vector<std::pair<std::int64_t, FeatureRecord>>;

constexpr std::uint64_t kBytesAtOnce = std::uint64_t{32} << 20;

/// A file that gets its name when it is complete.
class ExportFile {
 public:
  explicit ExportFile(fs::path path) : path_(std::move(path)), part_(path_.string() + ".part") {
    check(file_.open(part_, true));
    check(file_.resize(0));
  }
  ~ExportFile() {
    if (!is_finished_) std::remove(part_.c_str());
  }
  ExportFile(const ExportFile&) = delete;
  ExportFile& operator=(const ExportFile&) = delete;

  void write(std::uint64_t offset, std::span<const std::byte> bytes) const {
    check(file_.write(offset, bytes));
  }
  void finish() {
    if (std::rename(part_.c_str(), path_.c_str()) != 0) check(errno);
    is_finished_ = true;
  }

 private:
  void check(int error) const {
    if (error != 0) throw Error("cannot write '" + path_.string() + "': " + errno_message(error));
  }

  fs::path path_, part_;
  CacheFile file_;
  bool is_finished_ = false;
};

/// Where the rows of one array are written.
struct Column {
  std::string name;
  StoredType type = StoredType::float32;
  std::vector<std::int64_t> shape;  ///< with the number of rows
  std::size_t from = 0;             ///< offset in each record
  std::uint64_t row_bytes = 0;      ///< in each record
  bool widens = false;              ///< bfloat16 to float32
  std::shared_ptr<ExportFile> file = nullptr;
  std::uint64_t at = 0;  ///< offset of the first row in the file
};

std::string npy_type(StoredType type) {
  switch (type) {
    case StoredType::boolean:
      return "|b1";
    case StoredType::uint8:
      return "|u1";
    case StoredType::int8:
      return "|i1";
    case StoredType::int16:
      return "<i2";
    case StoredType::uint16:
      return "<u2";
    case StoredType::float16:
      return "<f2";
    case StoredType::int32:
      return "<i4";
    case StoredType::uint32:
      return "<u4";
    case StoredType::bfloat16:
    case StoredType::float32:
      return "<f4";
    case StoredType::int64:
      return "<i8";
    case StoredType::uint64:
      return "<u8";
    case StoredType::float64:
      return "<f8";
    case StoredType::float8_e4m3fn:
    case StoredType::float8_e5m2:
      break;
  }
  throw Refused("NumPy has no type for " + std::string(torch_name(type)) +
                ": export to safetensors");
}

std::string npy_file_name(std::string name) {
  for (char& c : name) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    if (!is_plain) c = '_';
  }
  if (name.front() == '.') name.front() = '_';
  return name + ".npy";
}

/// Returns the columns of the fields, then those of the index and the version.
std::vector<Column> make_columns(const FeatureManifest& manifest, std::size_t rows) {
  const auto count = static_cast<std::int64_t>(rows);
  std::vector<Column> columns;
  std::size_t from = 0;
  for (const FeatureField& field : manifest.fields) {
    Column column{field.name, field.type, {count}, from, field.bytes};
    column.shape.insert(column.shape.end(), field.shape.begin(), field.shape.end());
    columns.push_back(std::move(column));
    from += field.bytes;
  }
  for (const char* name : {kSampleIndexName, kSampleVersionName})
    columns.push_back({name, StoredType::int64, {count}, 0, sizeof(std::int64_t)});
  std::set<std::string> names = {kMetadataKey};
  for (const Column& column : columns)
    if (!names.insert(column.name).second)
      throw Refused("the field '" + printable_name(column.name) +
                    "' has a name that exports use for something else: rename it in the batch, and "
                    "compute the features again");
  return columns;
}

void open_npy_files(std::vector<Column>& columns, const fs::path& folder) {
  std::set<std::string> names;
  for (const Column& column : columns) {
    static_cast<void>(npy_type(column.type));
    if (!names.insert(npy_file_name(column.name)).second)
      throw Refused("two fields would have the file " + npy_file_name(column.name) +
                    ": export to safetensors");
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error("cannot create '" + folder.string() + "': " + failed.message());
  for (Column& column : columns) {
    column.widens = column.type == StoredType::bfloat16;
    column.file = std::make_shared<ExportFile>(folder / npy_file_name(column.name));
    const std::string header = npy_header(npy_type(column.type), column.shape);
    column.file->write(0, std::as_bytes(std::span(header)));
    column.at = header.size();
  }
}

void open_safetensors_file(std::vector<Column>& columns, const fs::path& path) {
  std::vector<StoredTensor> tensors;
  tensors.reserve(columns.size());
  for (const Column& column : columns)
    tensors.push_back({.name = column.name, .type = column.type, .shape = column.shape});
  const std::string head = lay_out_safetensors(tensors, {{"format", "pt"}});
  const auto file = std::make_shared<ExportFile>(path);
  file->write(0, std::as_bytes(std::span(head)));
  for (Column& column : columns) {
    const auto tensor = std::find_if(tensors.begin(), tensors.end(),
                                     [&](const auto& each) { return each.name == column.name; });
    column.file = file;
    column.at = head.size() + tensor->offset;
  }
}

/// Writes some rows of a column. `values`: contiguous.
void write_rows(const Column& column, std::size_t first, std::span<const std::byte> values) {
  if (!column.widens) return column.file->write(column.at + first * column.row_bytes, values);
  std::vector<std::uint32_t> wide(values.size() / sizeof(std::uint16_t));
  for (std::size_t i = 0; i < wide.size(); ++i) {
    std::uint16_t narrow = 0;
    std::memcpy(&narrow, values.data() + i * sizeof(narrow), sizeof(narrow));
    // A bfloat16 number is the upper half of the float32 number with the same value.
    wide[i] = static_cast<std::uint32_t>(narrow) << 16;
  }
  column.file->write(column.at + 2 * first * column.row_bytes, std::as_bytes(std::span(wide)));
}

void write_field(const Column& column, std::size_t first, std::span<const std::byte> records,
                 std::size_t record_bytes) {
  const std::size_t rows = records.size() / record_bytes;
  std::vector<std::byte> values(rows * column.row_bytes);
  for (std::size_t i = 0; i < rows && column.row_bytes > 0; ++i)
    std::memcpy(values.data() + i * column.row_bytes,
                records.data() + i * record_bytes + column.from, column.row_bytes);
  write_rows(column, first, values);
}

/// Writes the index and the version of each row.
void write_row_names(const std::vector<Column>& columns, const Rows& rows) {
  std::vector<std::int64_t> indices, versions;
  for (const auto& [number, record] : rows) {
    indices.push_back(record.index);
    versions.push_back(static_cast<std::int64_t>(record.entry.version));
  }
  write_rows(columns[columns.size() - 2], 0, std::as_bytes(std::span(indices)));
  write_rows(columns[columns.size() - 1], 0, std::as_bytes(std::span(versions)));
}

enum class Outcome : std::uint8_t { complete, stopped, found_damage };

Outcome write_all_rows(FeatureStore& store, const Rows& rows, const FeatureExport& options) {
  std::vector<Column> columns = make_columns(store.manifest(), rows.size());
  if (options.format == FeatureFormat::npy)
    open_npy_files(columns, options.out);
  else
    open_safetensors_file(columns, options.out);
  const std::uint64_t record_bytes = store.record_bytes();
  const std::size_t together = std::max<std::uint64_t>(kBytesAtOnce / record_bytes, 1);
  std::vector<std::byte> records;
  std::vector<std::int64_t> numbers;
  for (std::size_t first = 0; first < rows.size(); first += numbers.size()) {
    if (options.stop && options.stop()) return Outcome::stopped;
    numbers.clear();
    for (std::size_t i = first; i < std::min(first + together, rows.size()); ++i)
      numbers.push_back(rows[i].first);
    records.resize(numbers.size() * record_bytes);
    const std::vector<bool> good = store.read(numbers, records, options.threads);
    if (std::find(good.begin(), good.end(), false) != good.end()) return Outcome::found_damage;
    for (std::size_t k = 0; k < columns.size() - 2; ++k)
      write_field(columns[k], first, records, record_bytes);
    if (options.progress) options.progress(first + numbers.size(), rows.size());
  }
  write_row_names(columns, rows);
  std::set<std::shared_ptr<ExportFile>> files;
  for (const Column& column : columns) files.insert(column.file);
  for (const auto& file : files) file->finish();
  return Outcome::complete;
}

}  // namespace

ExportedFeatures export_features(FeatureStore& store, const FeatureExport& options) {
  const std::size_t found = store.ordered_records().size();
  // The number of rows is at the start of each file. If a record turns out to be damaged, the store
  // forgets it, and the export starts again without it.
  for (;;) {
    const Rows rows = store.ordered_records();
    const Outcome outcome = write_all_rows(store, rows, options);
    if (outcome == Outcome::found_damage) continue;
    return {rows.size(), found - rows.size(), outcome == Outcome::complete};
  }
}

}  // namespace slipstream
