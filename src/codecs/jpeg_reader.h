#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/jpeg_errors.h"
#include "codecs/jpeg_header.h"

namespace slipstream::jpeg {

inline constexpr const char* kBroken = "broken JPEG";
inline constexpr const char* kRemedy = "replace or remove the file";

/// Scans that an image may have: each costs a pass over all of it, and a few bytes suffice for one.
/// Encoders write about ten. REQUIRES: pixels > 0
int max_scans(std::int64_t pixels);

struct Reader {
  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress{};
  jpeg_source_mgr source{};
  Errors errors;

  explicit Reader(bool refuses_warnings);
  ~Reader() { jpeg_destroy_decompress(&info); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

/// Reads the header again, by libjpeg, and asks for RGB, or for CMYK where the file has inks.
/// REQUIRES: called within guard(), as the others
void open(Reader& reader, std::span<const std::byte> file, const Header& header);

j_common_ptr common(jpeg_decompress_struct& info);

/// Reads until before row `end` into `out`, one row behind the other.
void read_rows(jpeg_decompress_struct& info, JDIMENSION end, JSAMPLE* out);

/// Reads what follows the last row up to the end marker, which may be missing: as in PIL, that is a
/// warning, while a file that ends before its last row is an error.
void finish(jpeg_decompress_struct& info);

/// Rows of `bytes`, which live as long as the Reader.
JSAMPARRAY row_memory(jpeg_decompress_struct& info, JDIMENSION bytes, JDIMENSION rows);

}  // namespace slipstream::jpeg
