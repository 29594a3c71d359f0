#include "cuda/augment/chain_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/half.h"

namespace slipstream::test {
namespace {

template <typename T>
void append(Bytes& bytes, T value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(value));
}

Bytes concatenate(Bytes all, const Bytes& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

Bytes noise(const FieldSpec& spec, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes;
  const auto classes = static_cast<std::uint32_t>(spec.classes);
  for (std::size_t i = 0; i < spec.shape.elements(); ++i) {
    const auto word = static_cast<std::uint32_t>(random() >> 8);
    switch (spec.dtype) {
      case DType::uint8:
        append(bytes, static_cast<std::uint8_t>(classes > 0 ? word % classes : word & 255));
        break;
      case DType::float32:
        append(bytes, static_cast<float>(word) * 0x1p-24F);
        break;
      case DType::int32:
        append(bytes, static_cast<std::int32_t>(word));
        break;
      case DType::int64:
        append(bytes, std::int64_t{word});
    }
  }
  return bytes;
}

Bytes extreme_floats(const FieldSpec& spec, std::uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes;
  for (std::size_t i = 0; i < spec.shape.elements(); ++i) {
    auto word = static_cast<std::uint32_t>(random());
    if (i % 5 == 0) word &= 0x80000000U;                           // zeros
    if (i % 5 == 1) word = (word & 0x807FFFFFU) | 0x3F000000U;     // about 1
    if ((word & 0x7F800000U) == 0x7F800000U) word &= 0xBFFFFFFFU;  // neither infinite nor NaN
    append(bytes, std::bit_cast<float>(word));
  }
  return bytes;
}

FieldSpec image_field(std::int64_t height, std::int64_t width, std::int64_t channels, DType dtype) {
  return {"image", FieldKind::image, dtype, {height, width, channels}, 0};
}

FieldSpec mask_field(std::int64_t height, std::int64_t width, DType dtype) {
  return {"mask", FieldKind::mask, dtype, {height, width}, 10};
}

Bytes arrange_output(const ConstArray& image, const AugmentOutput& output) {
  const Shape& shape = image.shape;
  const std::size_t channels = shape.rank == 3 ? static_cast<std::size_t>(shape[2]) : 1;
  const std::size_t pixels = shape.elements() / channels;
  const bool is_first = output.layout == ImageLayout::channels_first;
  Bytes bytes;
  for (std::size_t i = 0; i < shape.elements(); ++i) {
    const std::size_t from = is_first ? i % pixels * channels + i / pixels : i;
    switch (image.dtype) {
      case DType::uint8:
        append(bytes, image.as<std::uint8_t>()[from]);
        break;
      case DType::float32:
        output.bf16 ? append(bytes, to_bf16(image.as<float>()[from]))
                    : append(bytes, image.as<float>()[from]);
        break;
      case DType::int32:
        append(bytes, image.as<std::int32_t>()[from]);
        break;
      case DType::int64:
        append(bytes, image.as<std::int64_t>()[from]);
    }
  }
  return bytes;
}

ChainCase::ChainCase(const std::vector<NamedOp>& operations, const FieldSpec& field,
                     std::size_t samples, AugmentOutput output, std::uint32_t seed,
                     Bytes (*contents)(const FieldSpec&, std::uint32_t))
    : chain(operations, 0, {field}), plan(chain, 0, output), batch_size(samples) {
  Scratch scratch;
  for (std::size_t i = 0; i < samples; ++i) {
    const Bytes image = contents(field, seed + static_cast<std::uint32_t>(i));
    images = concatenate(std::move(images), image);
    HostArray block;  // allocates aligned memory
    const MutableArray memory =
        block.reset(DType::uint8, {static_cast<std::int64_t>(chain.drawn_bytes())});
    chain.draw({.seed = seed, .epoch = 1, .sample = i}, memory.data);
    drawn.insert(drawn.end(), memory.data, memory.data + chain.drawn_bytes());
    HostArray values;
    HostArray spare;
    values.assign({image.data(), field.dtype, field.shape});
    chain.apply(memory.data, 0, values, spare, scratch);
    expected = concatenate(std::move(expected), arrange_output(values.view(), output));
  }
}

void ChainCase::check() const {
  const Bytes result = run_plan(plan, batch_size, images, drawn, expected.size());
  ASSERT_EQ(result.size(), expected.size());
  const auto [mine, wanted] = std::mismatch(result.begin(), result.end(), expected.begin());
  const auto at = static_cast<std::size_t>(mine - result.begin());
  if (at == result.size()) return;
  std::size_t different = 0;
  for (std::size_t i = 0; i < result.size(); ++i) different += result[i] != expected[i] ? 1 : 0;
  const std::size_t each = expected.size() / batch_size;
  ADD_FAILURE() << "byte " << at % each << " of image " << at / each << " (of " << each
                << " bytes each) is " << std::to_integer<int>(*mine) << ", should be "
                << std::to_integer<int>(*wanted) << "; " << different << " bytes differ, batch of "
                << batch_size << " to " << to_string(chain.outputs()[0].shape);
}

}  // namespace slipstream::test
