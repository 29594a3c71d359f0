#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "codecs/blend.h"
#include "codecs/codec.h"
#include "codecs/exif.h"
#include "slipstream/core/error.h"

namespace slipstream::webp {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error("broken WebP: " + what + "; replace or remove the file");
}

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

/// A WebP file of which the first frame is decoded, as in PIL. Borrows the file.
class WebpFile {
 public:
  explicit WebpFile(std::span<const std::byte> file) {
    const WebPData data = {reinterpret_cast<const std::uint8_t*>(file.data()), file.size()};
    demuxer_.reset(WebPDemux(&data));
    if (demuxer_ == nullptr) refuse("it is damaged or ends early");
    if (WebPDemuxGetFrame(demuxer_.get(), 1, &frame_) == 0) refuse("it has no image");
    orientation_ = read_orientation();
  }
  ~WebpFile() { WebPDemuxReleaseIterator(&frame_); }
  WebpFile(const WebpFile&) = delete;
  WebpFile& operator=(const WebpFile&) = delete;

  std::int64_t height() const { return value(WEBP_FF_CANVAS_HEIGHT); }
  std::int64_t width() const { return value(WEBP_FF_CANVAS_WIDTH); }
  Orientation orientation() const { return orientation_; }
  /// The frame and its position on the canvas, which is transparent outside of the frame.
  const WebPIterator& frame() const { return frame_; }
  bool fills_canvas() const { return frame_.width == width() && frame_.height == height(); }

 private:
  std::int64_t value(WebPFormatFeature feature) const {
    return WebPDemuxGetI(demuxer_.get(), feature);
  }

  Orientation read_orientation() const {
    WebPChunkIterator chunk;
    if (WebPDemuxGetChunk(demuxer_.get(), "EXIF", 1, &chunk) == 0) return kAsStored;
    const std::span exif(reinterpret_cast<const std::byte*>(chunk.chunk.bytes), chunk.chunk.size);
    // The container specifies EXIF without the start that it has in JPEG, but some writers add it.
    const Orientation found = is_exif(exif) ? exif_orientation(exif) : tiff_orientation(exif);
    WebPDemuxReleaseChunkIterator(&chunk);
    return found;
  }

  std::unique_ptr<WebPDemuxer, DeleteDemuxer> demuxer_;
  WebPIterator frame_{};
  Orientation orientation_ = kAsStored;
};

/// Decodes the frame into `pixels`, which has room for `stride` * height bytes.
void decode_frame(const WebPIterator& frame, WEBP_CSP_MODE mode, std::uint8_t* pixels,
                  std::size_t stride) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    throw Error(
        "libwebp has another version than the one that Slipstream was built with; build "
        "it again");
  const WebPData& data = frame.fragment;
  const VP8StatusCode header = WebPGetFeatures(data.bytes, data.size, &config.input);
  if (header != VP8_STATUS_OK || config.input.width != frame.width ||
      config.input.height != frame.height)
    refuse("its frame does not have the size that its header declares");
  config.output.colorspace = mode;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = stride * static_cast<std::size_t>(frame.height);
  const VP8StatusCode status = WebPDecode(data.bytes, data.size, &config);
  WebPFreeDecBuffer(&config.output);
  if (status == VP8_STATUS_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status == VP8_STATUS_OK) return;
  refuse(status == VP8_STATUS_NOT_ENOUGH_DATA ? "it ends early" : "its pixels are damaged");
}

void fill(const Rgb& color, const MutableArray& out) {
  auto* level = out.as<std::uint8_t>();
  const std::size_t pixels = out.bytes() / 3;
  for (std::size_t i = 0; i < pixels; ++i, level += 3) std::copy(color.begin(), color.end(), level);
}

void decode(std::span<const std::byte> bytes, const DecodeOptions& options,
            const MutableArray& out) {
  const WebpFile file(bytes);
  const WebPIterator& frame = file.frame();
  const bool is_plain = frame.has_alpha == 0 && file.orientation() == kAsStored;
  if (is_plain && file.fills_canvas())
    return decode_frame(frame, MODE_RGB, out.as<std::uint8_t>(),
                        3 * static_cast<std::size_t>(frame.width));
  if (!file.fills_canvas()) fill(options.background, out);
  const std::size_t stride = 4 * static_cast<std::size_t>(frame.width);
  std::vector<std::uint8_t> pixels(stride * static_cast<std::size_t>(frame.height));
  decode_frame(frame, MODE_RGBA, pixels.data(), stride);
  const Turn turn = make_turn(file.orientation(), static_cast<std::ptrdiff_t>(file.height()),
                              static_cast<std::ptrdiff_t>(file.width()));
  const std::uint8_t* from = pixels.data();
  for (std::ptrdiff_t y = frame.y_offset; y < frame.y_offset + frame.height; ++y) {
    for (std::ptrdiff_t x = frame.x_offset; x < frame.x_offset + frame.width; ++x, from += 4)
      blend_pixel(from, options.background, out.as<std::uint8_t>() + 3 * turn.index(y, x));
  }
}

Shape shape(std::span<const std::byte> bytes) {
  const WebpFile file(bytes);
  const std::int64_t channels = file.frame().has_alpha != 0 ? 4 : 3;
  if (swaps_sides(file.orientation())) return {file.width(), file.height(), channels};
  return {file.height(), file.width(), channels};
}

}  // namespace
}  // namespace slipstream::webp

namespace slipstream {

const Codec* webp_codec() {
  static constexpr Codec kCodec = {webp::shape, webp::decode};
  return &kCodec;
}

}  // namespace slipstream
