#include "data/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <jpeglib.h>

#include <jerror.h>  // after jpeglib.h, which says which messages there are

#include "slipstream/error.h"

// libjpeg reports by a callback that must not return, and an exception must not cross its frames:
// the callback jumps to guard(), which throws. No function that is jumped over owns anything.
namespace slipstream::jpeg {
namespace {

// More scans than any encoder writes; each costs a pass over the whole image.
constexpr int kMaxScans = 500;
constexpr int kRowsAtOnce = 8;

struct Errors {
  jpeg_error_mgr manager;  // first: libjpeg hands it back as a pointer to Errors
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

Errors& errors_of(j_common_ptr info) { return *reinterpret_cast<Errors*>(info->err); }

[[noreturn]] void fail(j_common_ptr info, const char* message) {
  Errors& errors = errors_of(info);
  std::snprintf(errors.message, sizeof(errors.message), "%s", message);
  std::longjmp(errors.jump, 1);
}

[[noreturn]] void on_error(j_common_ptr info) {
  Errors& errors = errors_of(info);
  info->err->format_message(info, errors.message);
  std::longjmp(errors.jump, 1);
}

bool means_damage(int code) {
  switch (code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
      return true;
    default:
      return false;
  }
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && means_damage(info->err->msg_code)) on_error(info);
}

void on_output(j_common_ptr) {}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    fail(info, "it has too many scans");
  }
}

void set_up(Errors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = on_error;
  errors.manager.emit_message = on_message;
  errors.manager.output_message = on_output;
}

template <typename Body>
void guard(Errors& errors, const char* failed, const char* remedy, Body body) {
  if (setjmp(errors.jump) != 0) {
    throw Error(std::string(failed) + ": " + errors.message + "; " + remedy);
  }
  body();
}

struct Reader {
  jpeg_decompress_struct info{};
  jpeg_progress_mgr progress{};
  Errors errors;

  Reader() {
    set_up(errors);
    info.err = &errors.manager;
    progress.progress_monitor = on_progress;
  }
  ~Reader() { jpeg_destroy_decompress(&info); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

void read_rgb(jpeg_decompress_struct& info, JSAMPLE* out) {
  const std::size_t row_bytes = std::size_t{3} * info.output_width;
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[kRowsAtOnce];
    for (int i = 0; i < kRowsAtOnce; ++i) {
      rows[i] = out + (info.output_scanline + static_cast<std::size_t>(i)) * row_bytes;
    }
    const JDIMENSION left = info.output_height - info.output_scanline;
    jpeg_read_scanlines(&info, rows, left < kRowsAtOnce ? left : kRowsAtOnce);
  }
}

JSAMPLE scaled(JSAMPLE level, JSAMPLE by) { return static_cast<JSAMPLE>((level * by + 127) / 255); }

// Adobe's convention, which all writers follow: 255 means no ink.
void read_cmyk(jpeg_decompress_struct& info, JSAMPLE* out) {
  const JSAMPARRAY row = info.mem->alloc_sarray(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE,
                                                info.output_width * 4, 1);
  while (info.output_scanline < info.output_height) {
    jpeg_read_scanlines(&info, row, 1);
    const JSAMPLE* inks = row[0];
    for (JDIMENSION x = 0; x < info.output_width; ++x, inks += 4, out += 3) {
      for (int c = 0; c < 3; ++c) out[c] = scaled(inks[c], inks[3]);
    }
  }
}

void read_all(Reader& reader, std::span<const std::byte> file, const MutableArray& out) {
  jpeg_decompress_struct& info = reader.info;
  const auto common = reinterpret_cast<j_common_ptr>(&info);
  jpeg_create_decompress(&info);
  info.progress = &reader.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  if (info.image_height != out.shape[0] || info.image_width != out.shape[1]) {
    fail(common, "it has two headers that differ");
  }
  const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&info);
  (is_cmyk ? read_cmyk : read_rgb)(info, out.as<JSAMPLE>());
  jpeg_finish_decompress(&info);
}

struct Writer {
  jpeg_compress_struct info{};
  Errors errors;
  unsigned char* data = nullptr;
  unsigned long size_bytes = 0;

  Writer() {
    set_up(errors);
    info.err = &errors.manager;
  }
  ~Writer() {
    jpeg_destroy_compress(&info);
    std::free(data);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

void write_all(Writer& writer, const ConstArray& pixels, int quality) {
  jpeg_compress_struct& info = writer.info;
  const bool is_grey = pixels.shape.rank == 2;
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &writer.data, &writer.size_bytes);
  info.image_height = static_cast<JDIMENSION>(pixels.shape[0]);
  info.image_width = static_cast<JDIMENSION>(pixels.shape[1]);
  info.input_components = is_grey ? 1 : 3;
  info.in_color_space = is_grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  const std::size_t row_bytes = std::size_t{info.image_width} * (is_grey ? 1 : 3);
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = const_cast<JSAMPLE*>(pixels.as<JSAMPLE>()) + info.next_scanline * row_bytes;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
}

}  // namespace

void decode(std::span<const std::byte> file, const MutableArray& out) {
  Reader reader;
  guard(reader.errors, "broken JPEG", "replace or remove the file",
        [&] { read_all(reader, file, out); });
}

std::vector<std::byte> encode(const ConstArray& pixels, int quality) {
  Writer writer;
  guard(writer.errors, "cannot write a JPEG", "JPEG holds at most 65500 x 65500 pixels",
        [&] { write_all(writer, pixels, quality); });
  const auto* bytes = reinterpret_cast<const std::byte*>(writer.data);
  return {bytes, bytes + writer.size_bytes};
}

}  // namespace slipstream::jpeg
