#pragma once

#include <gtest/gtest.h>

#include "loader/jpeg_slot.h"
#include "loader/loader_fixture.h"
#include "support/jpeg_set.h"

namespace slipstream {

using Chain = std::vector<NamedOp>;

inline constexpr std::size_t kBatchSize = 5;

inline DataLoaderOptions as_files(unsigned workers = 1) {
  return {{.batch_size = kBatchSize}, {.num_workers = workers, .wire = {{"image", Wire::jpeg}}}};
}

inline DataLoaderOptions plain() { return {{.batch_size = kBatchSize}, {}}; }

inline Bytes field_bytes(const SlabField& field, const HostBatch& batch, std::size_t position) {
  const std::byte* from = batch.data + field.offset_bytes + position * field.sample_bytes;
  return {from, from + field.sample_bytes};
}

/// Returns the image of a slot, which the CPU decodes if the slot contains a file.
inline Bytes read_image(const SlabField& field, const HostBatch& batch, std::size_t position) {
  const JpegSlot slot = jpeg_slot(field, batch.data, position);
  const auto payload = jpeg_payload(field, batch.data, position);
  if (slot.holds == JpegSlot::Holds::pixels) return {payload.begin(), payload.end()};
  HostArray out;
  unpack_jpeg(slot, payload, {}, out.reset(DType::uint8, field.spec.shape));
  return {out.view().data, out.view().data + out.view().bytes()};
}

/// Compares every field of a batch with that of a loader that sends pixels; returns the numbers of
/// the samples that were sent as files.
inline std::vector<std::uint64_t> compare(const DataLoader& packed, const HostBatch& batch,
                                          const DataLoader& expected, const HostBatch& as_usual) {
  std::vector<std::uint64_t> traveled;
  for (std::size_t at = 0; at < kBatchSize; ++at) {
    for (const SlabField& field : packed.layout().fields) {
      const SlabField& usual = expected.layout().field(field.spec.name);
      const bool is_image = field.wire == Wire::jpeg;
      EXPECT_EQ(is_image ? read_image(field, batch, at) : field_bytes(field, batch, at),
                field_bytes(usual, as_usual, at))
          << field.spec.name << " of batch " << batch.number << ", position " << at;
      if (!is_image) continue;
      const JpegSlot slot = jpeg_slot(field, batch.data, at);
      if (slot.holds == JpegSlot::Holds::file) traveled.push_back(slot.sample);
    }
  }
  return traveled;
}

}  // namespace slipstream
