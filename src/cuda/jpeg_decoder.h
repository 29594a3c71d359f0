#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/cuda.h"

namespace slipstream::cuda {

/// A JPEG file in host memory and where its pixels go.
struct JpegImage {
  std::span<const std::byte> file;
  std::int64_t height = 0;  ///< as its header says
  std::int64_t width = 0;
  std::byte* pixels = nullptr;  ///< device memory: interleaved RGB, uint8, rows of 3 * width bytes
};

/// Decodes batches of JPEG files by nvJPEG: on the GPU's JPEG engines where it has them (chips for
/// data centers from the A100 on, with the driver's libnvcuvid.so.1), otherwise by CUDA kernels.
/// Baseline files of one scan alone. Chroma is interpolated, as libjpeg-turbo does; levels differ
/// from those of libjpeg-turbo by a few (docs/loader.md), and may differ between engines and
/// kernels. Damage within the coded pixels may pass unnoticed.
/// One thread at a time.
class JpegDecoder {
 public:
  struct Options {
    int device = 0;
    std::size_t batch_size = 1;          ///< most images of a call
    bool may_use_engines = true;         ///< false: CUDA kernels
    std::vector<std::string> libraries;  ///< files to open as nvJPEG, the first that is there;
                                         ///< empty: the usual places
  };

  /// Throws Refused where nvJPEG is not installed; Error where it cannot be used.
  explicit JpegDecoder(const Options& options);
  /// Waits for the device.
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Whether the GPU's JPEG engines decode.
  bool uses_engines() const;

  /// Decodes into device memory; returns the indices of those that cannot be decoded, ascending,
  /// whose pixels are unspecified (valid until the next call). Blocks the host while the batch
  /// before the last is being decoded, and longer where a batch fails as a whole: it is then
  /// decoded image by image.
  ///
  /// The engines begin at once, whatever `stream` has still to do, so nothing on the device may use
  /// the pixels' memory any more when this is called. Work enqueued on `stream` afterwards finds
  /// the pixels there. The files must stay unchanged until work enqueued on `stream` afterwards has
  /// run.
  std::span<const std::size_t> decode_async(std::span<const JpegImage> images, StreamView stream);

  /// How often nvJPEG has taken memory, on the device or page-locked: constant in the steady state.
  std::uint64_t allocations() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipstream::cuda
