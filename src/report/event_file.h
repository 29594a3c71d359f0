#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace slipstream {

/// Returns the CRC-32C (Castagnoli) of `bytes`, as RFC 3720 defines it in section 12.1.
std::uint32_t crc32c(std::string_view bytes);

/// A file of scalars for TensorBoard: a sequence of TFRecords (tensorflow/core/lib/io/
/// record_writer.h), each with one Event (tensorflow/core/util/event.proto).
class EventFile {
 public:
  /// Creates a new file in `folder`, events.out.tfevents.SECONDS.HOST.PID, with ".1", ".2" ...
  /// appended if that name exists. Its first records give the format's version and tell readers to
  /// discard `first_step` and later steps of older files in the folder. `wall_time_s` is in seconds
  /// since 1970. Throws Error with the path and the reason; there is no file then.
  EventFile(const std::filesystem::path& folder, double wall_time_s, std::uint64_t first_step);

  /// Appends a record of named values, which are stored as float32. When this returns, readers see
  /// the whole record or nothing of it. The names are UTF-8. Throws Error with the path and the
  /// reason, also if the file was removed. An existing file then ends with the previous record.
  void add(double wall_time_s, std::uint64_t step,
           const std::vector<std::pair<std::string, double>>& values);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace slipstream
