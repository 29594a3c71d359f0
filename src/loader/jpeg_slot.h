#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "slipstream/codecs/image.h"
#include "slipstream/core/region.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// What a slot of a field that travels as Wire::jpeg begins with; its payload follows kBytes behind
/// its start. A slot has SlabField::sample_bytes, a multiple of 64; what lies behind the payload is
/// unspecified.
struct JpegSlot {
  static constexpr std::size_t kBytes = 64;

  /// pixels: the finished image, uint8, as the field's FieldSpec says: a worker has made it. file:
  /// a JPEG file that is baseline, Huffman coded, of 8 bits, gray or YCbCr in one scan, and not
  /// turned by EXIF.
  enum class Holds : std::uint8_t { pixels, file };

  Holds holds = Holds::pixels;
  bool flips_across = false;  ///< mirrored left and right, after `region` has been resized
  bool flips_down = false;
  std::uint32_t bytes = 0;   ///< of the payload
  std::int32_t height = 0;   ///< of the file's image
  std::int32_t width = 0;    ///< of the file's image
  Region region;             ///< of the file's image: what is resized to the field's size
  std::uint64_t sample = 0;  ///< its number in the data set
};

/// The head of slot `position` of a slab, and what it holds.
JpegSlot jpeg_slot(const SlabField& field, const std::byte* slab, std::size_t position);
std::span<const std::byte> jpeg_payload(const SlabField& field, const std::byte* slab,
                                        std::size_t position);

/// Makes the image of a slot that holds a file, on the calling thread: the pixels that traveling
/// plain gives. `out` has the field's form. Throws Error for a file that cannot be decoded.
void unpack_jpeg(const JpegSlot& slot, std::span<const std::byte> file,
                 const DecodeOptions& options, const MutableArray& out);

}  // namespace slipstream
