#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/jpeg_errors.h"
#include "codecs/jpeg_header.h"

namespace slipstream::jpeg {

inline constexpr const char* kBroken = "broken JPEG";
inline constexpr const char* kRemedy = "replace or remove the file";

/// Maximum number of scans for an image of that size: decoding each scan processes the whole image,
/// but a scan needs only a few bytes in a file, so a small file could take very long. Encoders
/// write about ten scans.
/// REQUIRES: pixels > 0
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

/// Makes libjpeg read the header, and selects RGB output, or CMYK output if the file stores inks.
/// REQUIRES: called inside guard(), like the functions below
void open(Reader& reader, std::span<const std::byte> file, const Header& header);

j_common_ptr common(jpeg_decompress_struct& info);

/// Reads the rows up to, but not including, row `end` into `out`, contiguously.
void read_rows(jpeg_decompress_struct& info, JDIMENSION end, JSAMPLE* out);

/// Reads the data after the last row up to the end marker. As in PIL, a missing end marker is a
/// warning, while a file that ends before its last row is an error.
void finish(jpeg_decompress_struct& info);

/// Allocates `rows` rows of `bytes` bytes that live as long as the Reader. libjpeg owns them, so
/// that a longjmp() leaks nothing.
JSAMPARRAY row_memory(jpeg_decompress_struct& info, JDIMENSION bytes, JDIMENSION rows);

}  // namespace slipstream::jpeg
