#include "transforms/mix.h"

#include <algorithm>
#include <cstring>

#include "core/half.h"

namespace slipstream {
namespace {

void store(float* to, float value) { *to = value; }
void store(std::uint16_t* to, float value) { *to = to_bf16(value); }
void store(std::uint8_t* to, std::uint8_t value) { *to = value; }

template <typename Out>
void blend(const float* own, const float* partner, const DrawnMix& drawn, std::int64_t count,
           Out* to) {
  for (std::int64_t i = 0; i < count; ++i) store(to + i, mixed(own[i], partner[i], drawn));
}

template <typename In, typename Out>
void copy(const In* from, std::int64_t count, Out* to) {
  for (std::int64_t i = 0; i < count; ++i) store(to + i, from[i]);
}

template <typename In, typename Out>
void box(const In* own, const In* partner, const DrawnMix& drawn, const MixForm& form, Out* to) {
  copy(own, form.elements(), to);
  const std::int64_t inner = form.planar ? 1 : form.channels;
  const std::int64_t planes = form.planar ? form.channels : 1;
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for (std::int64_t y = drawn.top; y < drawn.bottom; ++y) {
      const std::int64_t at = ((plane * form.height + y) * form.width + drawn.left) * inner;
      copy(partner + at, (drawn.right - drawn.left) * inner, to + at);
    }
  }
}

template <typename In, typename Out>
void mix_images(const MixForm& form, const MixBatch& batch) {
  const std::int64_t count = form.elements();
  const In* images = static_cast<const In*>(batch.images);
  for (std::int64_t i = 0; i < batch.size; ++i) {
    const In* own = images + i * count;
    const In* partner = images + mix_partner(i, batch.size) * count;
    Out* to = static_cast<Out*>(batch.mixed) + i * count;
    if constexpr (std::is_same_v<In, float>) {
      if (form.images == MixForm::Images::blended) {
        blend(own, partner, batch.drawn[i], count, to);
        continue;
      }
    }
    box(own, partner, batch.drawn[i], form, to);
  }
}

std::int64_t label_at(const MixForm& form, const void* labels, std::int64_t i) {
  switch (form.label) {
    case DType::uint8:
      return static_cast<const std::uint8_t*>(labels)[i];
    case DType::int32:
      return static_cast<const std::int32_t*>(labels)[i];
    default:
      return static_cast<const std::int64_t*>(labels)[i];
  }
}

void mix_labels(const MixForm& form, const MixBatch& batch) {
  float* to = batch.targets;
  for (std::int64_t i = 0; i < batch.size; ++i) {
    const DrawnMix drawn = batch.drawn == nullptr ? DrawnMix{} : batch.drawn[i];
    const std::int64_t own = label_at(form, batch.labels, i);
    const std::int64_t partner = label_at(form, batch.labels, mix_partner(i, batch.size));
    for (std::int64_t c = 0; c < form.classes; ++c) *to++ = target(c, own, partner, drawn, form);
  }
}

}  // namespace

void mix(const MixForm& form, const MixBatch& batch) {
  mix_labels(form, batch);
  if (form.images == MixForm::Images::none) return;
  if (form.dtype == DType::uint8) return mix_images<std::uint8_t, std::uint8_t>(form, batch);
  if (form.bf16) return mix_images<float, std::uint16_t>(form, batch);
  mix_images<float, float>(form, batch);
}

}  // namespace slipstream
