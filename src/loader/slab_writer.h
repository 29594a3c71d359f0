#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "loader/canvas.h"
#include "loader/jpeg_slot.h"
#include "loader/running_order.h"
#include "loader/sample_cache.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Writes finished samples to their positions in slabs, with the random parameters of the
/// operations on the device. Workers share it. Everything that it was constructed from must outlive
/// it.
class SlabWriter {
 public:
  /// `stored` has the fields as the data set declares them.
  SlabWriter(const SlabLayout& layout, const std::vector<FieldSpec>& stored, std::uint64_t seed)
      : layout_(layout), stored_(stored), seed_(seed) {}

  /// Writes one sample and returns the number of bytes. `file` is the head of the slot of the image
  /// that travels as a file. `part` describes which parts of its fields `sample` contains; nullptr
  /// if it is whole. Throws what collate() and collate_on_canvas() throw.
  std::size_t write(const SamplePosition& place, const Sample& sample,
                    const std::optional<JpegSlot>& file, const DecodedPart* part,
                    CanvasMemory& memory, std::byte* slab) const;
  /// Writes a whole sample of a cache.
  std::size_t write(const SamplePosition& place, std::span<const CachedField> sample,
                    CanvasMemory& memory, std::byte* slab) const;

 private:
  template <typename ValueOf>
  std::size_t write_values(const SamplePosition& place, const ValueOf& get_value,
                           const std::optional<JpegSlot>& file, const DecodedPart* part,
                           CanvasMemory& memory, std::byte* slab) const;
  template <typename ValueOf>
  std::optional<CanvasPosition> canvas_place(const SamplePosition& place, const ValueOf& get_value,
                                             const DecodedPart* part) const;
  /// Writes the random parameters of the operations on the device into their fields.
  void draw_for_device(const SamplePosition& place, const CanvasPosition* canvas,
                       std::byte* slab) const;

  const SlabLayout& layout_;
  const std::vector<FieldSpec>& stored_;
  std::uint64_t seed_;
};

}  // namespace slipstream
