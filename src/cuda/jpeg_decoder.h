#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/cuda.h"

namespace slipstream::cuda {

/// A JPEG file in host memory and the destination of its pixels.
struct JpegImage {
  std::span<const std::byte> file;
  std::int64_t height = 0;  ///< as in its header
  std::int64_t width = 0;
  std::byte* pixels = nullptr;  ///< device memory: interleaved RGB, uint8, rows of 3 * width bytes
};

/// Decodes batches of JPEG files with nvJPEG: on the GPU's JPEG engines if it has them (data center
/// chips from the A100 on, with the driver's libnvcuvid.so.1), otherwise with CUDA kernels. It
/// decodes only baseline files of one scan. Chroma is interpolated, as libjpeg-turbo does; levels
/// differ from those of libjpeg-turbo by a few (docs/jpeg.md), and may differ between engines and
/// kernels. Damage in the coded pixels may go unnoticed. One thread at a time may use a decoder.
class JpegDecoder {
 public:
  struct Options {
    int device = 0;
    std::size_t batch_size = 1;          ///< maximum number of images per call
    bool may_use_engines = true;         ///< false: CUDA kernels
    std::vector<std::string> libraries;  ///< candidates for the nvJPEG library; the first that
                                         ///< exists is opened. Empty: the usual locations
  };

  /// Throws Refused if nvJPEG is not installed, and Error if it cannot be used.
  explicit JpegDecoder(const Options& options);
  /// Blocks until the device is idle.
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Returns true if the GPU's JPEG engines are used.
  bool uses_engines() const;

  /// Decodes into device memory. Returns the indices of images that cannot be decoded, ascending,
  /// whose pixels are unspecified (valid until the next call). Blocks the host until the batch
  /// before the last is decoded. If a batch fails as a whole it is decoded image by image, which
  /// blocks longer.
  ///
  /// The engines start at once, whatever work `stream` still has, so nothing on the device may
  /// still use the pixels' memory when this is called. Work enqueued on `stream` afterwards sees
  /// the pixels. The files must not change until work enqueued on `stream` afterwards has run.
  std::span<const std::size_t> decode_async(std::span<const JpegImage> images, StreamView stream);

  /// Number of allocations by nvJPEG, on the device or page-locked. Constant in the steady state.
  std::uint64_t allocations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream::cuda
