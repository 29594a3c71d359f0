#include <zlib.h>

#include <algorithm>
#include <new>

#include "report/trace_report.h"

namespace slipstream {
namespace {

constexpr int kGzipWindow = 15 + 16;
constexpr int kMemoryLevel = 8;
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;

}  // namespace

std::string gzipped(std::string_view text) {
  z_stream stream{};
  const int made = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow,
                                kMemoryLevel, Z_DEFAULT_STRATEGY);
  if (made != Z_OK) throw std::bad_alloc();
  std::string out;
  std::string part(std::size_t{1} << 16, '\0');
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    const std::size_t now = std::min(text.size(), kMostAtOnce);
    // zlib's interface takes a pointer to non-const, but does not write to it.
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(text.data()));
    stream.avail_in = static_cast<uInt>(now);
    stream.next_out = reinterpret_cast<Bytef*>(part.data());
    stream.avail_out = static_cast<uInt>(part.size());
    status = deflate(&stream, now == text.size() ? Z_FINISH : Z_NO_FLUSH);
    text.remove_prefix(now - stream.avail_in);
    out.append(part, 0, part.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace slipstream
