#include <cstdlib>

#include "codecs/jpeg.h"
#include "codecs/jpeg_errors.h"

namespace slipstream::jpeg {
namespace {

struct Writer {
  jpeg_compress_struct info{};
  Errors errors;
  unsigned char* data = nullptr;
  unsigned long size_bytes = 0;

  Writer() {
    set_up(errors, false);
    info.err = &errors.manager;
  }
  ~Writer() {
    jpeg_destroy_compress(&info);
    // libjpeg allocates this memory with malloc() and leaves it to the caller, also after an error.
    std::free(data);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

void write_all(Writer& writer, const ConstArray& pixels, int quality) {
  jpeg_compress_struct& info = writer.info;
  const bool is_gray = pixels.shape.rank == 2;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &writer.data, &writer.size_bytes);
  info.image_height = static_cast<JDIMENSION>(pixels.shape[0]);
  info.image_width = static_cast<JDIMENSION>(pixels.shape[1]);
  info.input_components = is_gray ? 1 : 3;
  info.in_color_space = is_gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  const std::size_t row_bytes = std::size_t{info.image_width} * (is_gray ? 1 : 3);
  while (info.next_scanline < info.image_height) {
    // libjpeg does not declare its input const, but it does not write to it.
    JSAMPROW row = const_cast<JSAMPLE*>(pixels.as<JSAMPLE>()) + info.next_scanline * row_bytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

}  // namespace

std::vector<std::byte> encode(const ConstArray& pixels, int quality) {
  Writer writer;
  guard(writer.errors, "cannot write a JPEG", "JPEG holds at most 65500 x 65500 pixels",
        [&] { write_all(writer, pixels, quality); });
  const auto* bytes = reinterpret_cast<const std::byte*>(writer.data);
  return {bytes, bytes + writer.size_bytes};
}

}  // namespace slipstream::jpeg
