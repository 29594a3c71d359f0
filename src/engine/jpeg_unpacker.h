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

/// Decodes the images of batches whose field travels as Wire::jpeg, and crops, resizes and mirrors
/// them on the GPU. Files that nvJPEG cannot decode are decoded on the calling thread. Used by one
/// thread at a time.
class JpegUnpacker {
 public:
  struct Options {
    int device = 0;
    /// Device memory. No work on the device may use memory that it returns. Enough for the largest
    /// batch so far is allocated twice.
    std::pmr::memory_resource* memory = nullptr;
    DecodeOptions decode = {};
    /// Returns a sample's name for messages.
    std::function<std::string(std::uint64_t)> name;
    bool may_use_engines = true;
  };

  /// Makes an unpacker for batches of `layout`. Throws Refused if nvJPEG is not installed.
  JpegUnpacker(const SlabLayout& layout, Options options);
  /// Waits for the device.
  ~JpegUnpacker();
  JpegUnpacker(const JpegUnpacker&) = delete;
  JpegUnpacker& operator=(const JpegUnpacker&) = delete;

  /// Writes the field's images to the device block `block`, enqueued on `stream`. `slab` must not
  /// change until work enqueued on `stream` afterwards has run. Blocks the host until the batch
  /// before the previous one is finished, because both use the same memory. Throws Error, naming
  /// the sample, if a file cannot be decoded at all.
  void unpack_async(const std::byte* slab, std::byte* block, cuda::StreamView stream);

  /// Returns true if batches of `layout` have the same images at the same offsets.
  bool fits(const SlabLayout& layout) const;

  bool uses_engines() const { return decoder_.uses_engines(); }
  const SlabField& field() const { return field_; }
  /// Number of images since construction, and of those that the CPU decoded: in a worker, or in
  /// unpack_async() if nvJPEG refused the file.
  std::uint64_t images() const { return images_; }
  std::uint64_t decoded_by_cpu() const { return by_cpu_; }

 private:
  /// A block of device memory that only grows.
  struct Memory {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
  };
  /// The device memory of one batch, in use until `done` is reached.
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
  std::vector<cuda::ImageSource> sources_;  ///< source of each image, parallel to files_
  std::vector<std::size_t> failed_;         ///< positions in the batch
};

}  // namespace slipstream
