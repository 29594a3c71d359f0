#include "codecs/png.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include <png.h>

#include "core/bytes.h"
#include "slipstream/core/error.h"

// libpng's error callback jumps to guard(), which throws, because an exception must not pass
// through libpng's C frames. No function that the jump skips owns anything.
namespace slipstream::png {
namespace {

constexpr std::size_t kHeaderBytes = 26;

struct Reader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  png_color_16 background{};
  std::span<const std::byte> rest;
  std::jmp_buf jump;
  char message[256] = {};
  char warning[256] = {};  ///< the first warning, or empty
  bool refuses_warnings = false;

  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void fail(Reader& reader, const char* message) {
  std::snprintf(reader.message, sizeof(reader.message), "%s", message);
  std::longjmp(reader.jump, 1);
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  fail(*static_cast<Reader*>(png_get_error_ptr(png)), message);
}

void on_warning(png_structp png, png_const_charp message) {
  Reader& reader = *static_cast<Reader*>(png_get_error_ptr(png));
  if (reader.refuses_warnings) fail(reader, message);
  if (reader.warning[0] == 0) std::snprintf(reader.warning, sizeof(reader.warning), "%s", message);
}

void on_read(png_structp png, png_bytep to, std::size_t bytes) {
  auto& rest = static_cast<Reader*>(png_get_io_ptr(png))->rest;
  if (rest.size() < bytes) png_error(png, "the data ends early");
  std::memcpy(to, rest.data(), bytes);
  rest = rest.subspan(bytes);
}

void open(Reader& reader) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png == nullptr)
    fail(reader, "libpng is out of memory, or its version differs from the one used at build time");
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) png_error(reader.png, "out of memory");
  png_set_read_fn(reader.png, &reader, on_read);
  png_set_keep_unknown_chunks(reader.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(reader.png, reader.info);
}

void ask_for_rgb(Reader& reader) {
  png_structp png = reader.png;
  const int color = png_get_color_type(png, reader.info);
  const bool has_alpha =
      (color & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png, reader.info, PNG_INFO_tRNS) != 0;
  png_set_expand(png);
  // Rounds 16 bits to 8. png_set_strip_16() would truncate.
  png_set_scale_16(png);
  if ((color & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  if (!has_alpha) return;
  png_set_background(png, &reader.background, PNG_BACKGROUND_GAMMA_SCREEN, 0, 1.0);
}

// Unpacks 1, 2 and 4 bits to bytes without scaling them, because they are class indices.
void ask_for_classes(Reader& reader) { png_set_packing(reader.png); }

void read_rows(Reader& reader, const MutableArray& out) {
  const int passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  const auto height = static_cast<std::size_t>(out.shape[0]);
  const std::size_t row_bytes = out.bytes() / height;
  if (png_get_image_height(reader.png, reader.info) != height ||
      png_get_rowbytes(reader.png, reader.info) != row_bytes) {
    png_error(reader.png, "its rows do not have the length that its header declares");
  }
  for (int pass = 0; pass < passes; ++pass) {
    png_bytep row = out.as<png_byte>();
    for (std::size_t y = 0; y < height; ++y, row += row_bytes)
      png_read_row(reader.png, row, nullptr);
  }
}

template <typename Body>
void guard(Reader& reader, Body body) {
  if (setjmp(reader.jump) != 0) {
    throw Error(std::string("broken PNG: ") + reader.message + "; replace or remove the file");
  }
  body();
}

/// Reads the chunks after the pixels. All pixels are complete then, so an error is only a warning.
void finish(Reader& reader) {
  try {
    guard(reader, [&] { png_read_end(reader.png, nullptr); });
  } catch (const Error&) {
    if (reader.refuses_warnings) throw;
    if (reader.warning[0] == 0)
      std::snprintf(reader.warning, sizeof(reader.warning), "%s", reader.message);
  }
}

void decode(Reader& reader, std::span<const std::byte> file, const DecodeOptions& options,
            void (*ask)(Reader&), const MutableArray& out) {
  reader.rest = file;
  reader.refuses_warnings = options.strict;
  guard(reader, [&] {
    open(reader);
    ask(reader);
    read_rows(reader, out);
  });
  finish(reader);
  if (options.warning != nullptr && reader.warning[0] != 0) *options.warning = reader.warning;
}

std::string describe(std::uint32_t bits, std::uint32_t color) {
  if ((color & PNG_COLOR_MASK_ALPHA) != 0) return "an alpha channel";
  if ((color & PNG_COLOR_MASK_COLOR) != 0) return "colors";
  return std::to_string(bits) + " bits per pixel";
}

}  // namespace

Shape shape(std::span<const std::byte> file) {
  // 0x49484452 is IHDR, the chunk that every PNG starts with.
  if (file.size() < kHeaderBytes || u32_at(file, 12) != 0x49484452) {
    throw Error("broken PNG: it ends inside its header; replace or remove the file");
  }
  const std::uint32_t color = u8_at(file, 25);
  const bool is_colored = color == PNG_COLOR_TYPE_RGB || color == PNG_COLOR_TYPE_RGB_ALPHA;
  const std::int64_t channels =
      (is_colored ? 3 : 1) + ((color & PNG_COLOR_MASK_ALPHA) != 0 ? 1 : 0);
  return {u32_at(file, 20), u32_at(file, 16), channels};
}

bool has_alpha(std::span<const std::byte> file) {
  // The types of chunks, tRNS and IDAT, in ASCII.
  constexpr std::uint32_t kTransparency = 0x74524e53, kPixels = 0x49444154;
  constexpr std::size_t kFirstChunk = 8, kAroundData = 12;
  if (file.size() < kHeaderBytes) return false;
  if ((u8_at(file, 25) & PNG_COLOR_MASK_ALPHA) != 0) return true;
  for (std::size_t at = kFirstChunk; at + kAroundData <= file.size();) {
    const std::uint32_t type = u32_at(file, at + 4);
    if (type == kTransparency) return true;
    if (type == kPixels) return false;
    at += kAroundData + u32_at(file, at);
  }
  return false;
}

void decode_rgb(std::span<const std::byte> file, const DecodeOptions& options,
                const MutableArray& out) {
  const Rgb& background = options.background;
  Reader reader;
  reader.background.red = background[0];
  reader.background.green = background[1];
  reader.background.blue = background[2];
  decode(reader, file, options, ask_for_rgb, out);
}

void decode_mask(std::span<const std::byte> file, const DecodeOptions& options,
                 const MutableArray& out) {
  // Bit depth and color type of the IHDR chunk, which is always the first.
  const std::uint32_t bits = u8_at(file, 24);
  const std::uint32_t color = u8_at(file, 25);
  if ((color != PNG_COLOR_TYPE_GRAY && color != PNG_COLOR_TYPE_PALETTE) || bits > 8) {
    throw Error("this PNG is not a mask: it has " + describe(bits, color) +
                "; a mask holds class indices, so save it as 8-bit gray or with a palette");
  }
  Reader reader;
  decode(reader, file, options, ask_for_classes, out);
}

std::vector<std::byte> encode(const ConstArray& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(pixels.shape[0]);
  image.width = static_cast<png_uint_32>(pixels.shape[1]);
  image.format = pixels.shape.rank == 2 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  // Row filters only slow down the reading of class indices.
  if (pixels.shape.rank == 2) image.flags = PNG_IMAGE_FLAG_FAST;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> file(bytes);
  if (!png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.data, 0, nullptr)) {
    throw Error(std::string("cannot write a PNG: ") + image.message);
  }
  file.resize(bytes);
  return file;
}

}  // namespace slipstream::png
