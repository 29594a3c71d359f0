#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "slipstream/codecs/image.h"
#include "slipstream/core/region.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// The head of a slot of a field that travels as Wire::jpeg. The payload starts kBytes after the
/// start of the slot. A slot has SlabField::sample_bytes bytes, a multiple of 64; the bytes after
/// the payload are unspecified.
struct JpegSlot {
  static constexpr std::size_t kBytes = 64;

  /// pixels: the finished image, uint8, in the form of the field's FieldSpec; a worker made it.
  /// file: a JPEG file that is baseline, Huffman coded, 8 bits, gray or YCbCr in one scan, and not
  /// rotated by EXIF.
  enum class Holds : std::uint8_t { pixels, file };

  Holds holds = Holds::pixels;
  bool flips_across = false;  ///< mirrored horizontally after `region` has been resized
  bool flips_down = false;
  std::uint32_t bytes = 0;   ///< size of the payload
  std::int32_t height = 0;   ///< of the file's image
  std::int32_t width = 0;    ///< of the file's image
  Region region;             ///< region of the file's image that is resized to the field's size
  std::uint64_t sample = 0;  ///< index of the sample in the data set
};

/// Returns the head and the payload of slot `position` of a slab.
JpegSlot jpeg_slot(const SlabField& field, const std::byte* slab, std::size_t position);
std::span<const std::byte> jpeg_payload(const SlabField& field, const std::byte* slab,
                                        std::size_t position);

/// Decodes the image of a slot that holds a file, on the calling thread. The pixels are those of an
/// image that travels plain. `out` has the field's form. Throws Error if the file cannot be
/// decoded.
void unpack_jpeg(const JpegSlot& slot, std::span<const std::byte> file,
                 const DecodeOptions& options, const MutableArray& out);

}  // namespace slipstream
