#pragma once

#include <array>
#include <functional>
#include <memory_resource>
#include <string>
#include <vector>

#include "cuda/augment/resample.h"
#include "cuda/jpeg_decoder.h"
#include "loader/jpeg_slot.h"

namespace slipstream {

/// Makes the images of batches whose field travels as Wire::jpeg: files are decoded on the GPU, or
/// on the calling thread where nvJPEG cannot, and cropped, resized and mirrored there. One thread
/// at a time.
class JpegUnpacker {
 public:
  struct Options {
    int device = 0;
    /// Device memory; what it hands out must not be in use by anything on the device. It is taken
    /// for the largest batch so far, twice.
    std::pmr::memory_resource* memory = nullptr;
    DecodeOptions decode = {};
    /// Names a sample in messages.
    std::function<std::string(std::uint64_t)> name;
    bool may_use_engines = true;
  };

  /// For batches of `layout`. Throws Refused where nvJPEG is not installed.
  JpegUnpacker(const SlabLayout& layout, Options options);
  /// Waits for the device.
  ~JpegUnpacker();
  JpegUnpacker(const JpegUnpacker&) = delete;
  JpegUnpacker& operator=(const JpegUnpacker&) = delete;

  /// Makes the field's images in the device block `block`, enqueued on `stream`; `slab` must stay
  /// unchanged until work enqueued on `stream` afterwards has run. Blocks the host while the batch
  /// before the last is being made. Throws Error naming the sample whose file nothing can decode.
  void unpack_async(const std::byte* slab, std::byte* block, cuda::StreamView stream);

  /// Whether batches of `layout` have the same images at the same offsets.
  bool fits(const SlabLayout& layout) const;

  bool uses_engines() const { return decoder_.uses_engines(); }
  const SlabField& field() const { return field_; }
  /// Images since construction, and those of them that the CPU decoded: a worker, or unpack_async()
  /// where nvJPEG refused the file.
  std::uint64_t images() const { return images_; }
  std::uint64_t decoded_by_cpu() const { return by_cpu_; }

 private:
  /// Device memory that only grows.
  struct Memory {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  /// What one batch needs on the device, until `done` is reached.
  struct Page {
    Memory pixels;
    Memory scratch;
    cudaEvent_t done = nullptr;
  };

  void grow(Memory& memory, std::size_t bytes);
  void sort_out(const std::byte* slab, std::byte* to, Page& page, cuda::StreamView stream);
  void decode(Page& page, cuda::StreamView stream);
  void resize(std::byte* to, Page& page, cuda::StreamView stream);
  void decode_on_host(const std::byte* slab, std::size_t position, std::byte* to,
                      cuda::StreamView stream);
  void release() noexcept;

  const SlabField field_;
  const std::size_t batch_size_;
  const std::size_t image_bytes_;
  const Options options_;
  cuda::JpegDecoder decoder_;
  std::array<Page, 2> pages_;
  std::size_t turn_ = 0;
  std::uint64_t images_ = 0;
  std::uint64_t by_cpu_ = 0;

  std::vector<cuda::JpegImage> files_;
  std::vector<cuda::ImageSource> sources_;  ///< of files_, one each
  std::vector<std::size_t> failed_;         ///< positions in the batch
};

}  // namespace slipstream
