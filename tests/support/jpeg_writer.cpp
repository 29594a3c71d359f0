#include "support/jpeg_writer.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <jpeglib.h>

namespace slipstream {
namespace {

using Colors = JpegKind::Colors;

constexpr jpeg_scan_info kScanEach[] = {
    {1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}, {1, {3}, 0, 63, 0, 0}};

[[noreturn]] void on_error(j_common_ptr info) {
  char message[JMSG_LENGTH_MAX];
  info->err->format_message(info, message);
  std::fprintf(stderr, "write_jpeg: %s\n", message);
  std::abort();
}

int count_channels(Colors colors) {
  if (colors == Colors::gray) return 1;
  return colors == Colors::cmyk || colors == Colors::ycck ? 4 : 3;
}

J_COLOR_SPACE stored_as(Colors colors) {
  switch (colors) {
    case Colors::gray:
      return JCS_GRAYSCALE;
    case Colors::ycc:
      return JCS_YCbCr;
    case Colors::rgb:
      return JCS_RGB;
    case Colors::cmyk:
      return JCS_CMYK;
    default:
      return JCS_YCCK;
  }
}

void choose(jpeg_compress_struct& info, const JpegKind& kind) {
  const int channels = count_channels(kind.colors);
  info.input_components = channels;
  info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_colorspace(&info, stored_as(kind.colors));
  jpeg_set_quality(&info, kind.quality, TRUE);
  for (int i = 0; i < info.num_components; ++i) {
    info.comp_info[i].h_samp_factor = i == 0 ? kind.across : 1;
    info.comp_info[i].v_samp_factor = i == 0 ? kind.down : 1;
  }
  info.arith_code = kind.is_arithmetic ? TRUE : FALSE;
  info.restart_in_rows = kind.restart_rows;
  info.write_Adobe_marker = info.write_Adobe_marker && kind.has_adobe_marker ? TRUE : FALSE;
  if (kind.is_progressive) jpeg_simple_progression(&info);
  if (kind.has_scan_each) {
    info.scan_info = kScanEach;
    info.num_scans = info.num_components;
  }
}

}  // namespace

std::vector<std::byte> write_jpeg(const JpegKind& kind, std::int64_t height, std::int64_t width,
                                  const std::vector<std::uint8_t>& levels) {
  const auto row_bytes = static_cast<std::size_t>(width * count_channels(kind.colors));
  if (levels.size() != row_bytes * static_cast<std::size_t>(height)) {
    throw std::runtime_error("write_jpeg: the levels do not fill the image");
  }
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  errors.error_exit = on_error;
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &data, &bytes);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  choose(info, kind);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPLE*>(levels.data()) + info.next_scanline * row_bytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(begin, begin + bytes);
  std::free(data);
  return file;
}

std::vector<std::uint8_t> noisy_levels(std::int64_t height, std::int64_t width, int channels) {
  std::vector<std::uint8_t> levels;
  std::uint32_t state = 1;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width * channels; ++x) {
      state = state * 1664525 + 1013904223;
      levels.push_back(static_cast<std::uint8_t>((x + 2 * y) % 192 + (state >> 26)));
    }
  }
  return levels;
}

}  // namespace slipstream
