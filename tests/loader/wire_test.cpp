#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "core/packed_field.h"
#include "slipstream/core/wire.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/loader/data_loader.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

template <typename T, typename Make>
ArrayField field(const std::string& name, FieldKind kind, const Shape& shape, std::int64_t classes,
                 const Make& make) {
  constexpr bool kIsByte = sizeof(T) == 1;
  constexpr DType kIntegers = sizeof(T) == 4 ? DType::int32 : DType::int64;
  constexpr DType kType =
      std::is_floating_point_v<T> ? DType::float32 : (kIsByte ? DType::uint8 : kIntegers);
  ArrayField result{name, kind, {}, classes};
  const MutableArray array = result.values.reset(kType, shape);
  for (std::size_t i = 0; i < array.shape.elements(); ++i) array.as<T>()[i] = make(i);
  return result;
}

template <typename T>
ArrayField class_numbers(const std::string& name, FieldKind kind, const Shape& shape,
                         std::int64_t classes) {
  std::mt19937_64 random(static_cast<std::uint64_t>(classes));
  return field<T>(name, kind, shape, classes, [&](std::size_t i) {
    const auto last = static_cast<std::uint64_t>(classes - 1);
    return static_cast<T>(i == 0 ? last : random() % (last + 1));
  });
}

template <typename T>
ArrayField vectors(const std::string& name, const Shape& shape) {
  const auto length = static_cast<std::size_t>(shape[shape.rank - 1]);
  return field<T>(name, FieldKind::other, shape, 0, [&](std::size_t i) {
    return static_cast<T>(i % length == (i / length * 7 + 3) % length);
  });
}

ArrayField numbers(const std::string& name, const Shape& shape) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 3);
  return field<float>(name, FieldKind::other, shape, 0,
                      [&](std::size_t) { return normal(random); });
}

/// Returns the fields of one batch as stages see them.
std::vector<Bytes> received_fields(const std::shared_ptr<const Dataset>& dataset,
                                   std::size_t batch_size, const WireFormats& wire) {
  DataLoader loader(dataset, {}, {{.batch_size = batch_size}, {.num_workers = 2, .wire = wire}});
  const SlabLayout& layout = loader.layout();
  const HostBatch batch = loader.next();
  Bytes block(layout.device_bytes, std::byte{0xa5});
  std::memcpy(block.data(), batch.data, layout.copied_bytes);
  if (layout.packed != nullptr) unpack(*layout.packed, block.data());
  std::vector<Bytes> fields;
  for (const SlabField& each : layout.fields) {
    if (each.wire == Wire::host) continue;
    const auto first = block.begin() + static_cast<std::ptrdiff_t>(each.device_offset_bytes);
    const std::size_t bytes = batch_size * each.spec.shape.elements() * size_bytes(each.dtype);
    fields.emplace_back(first, first + static_cast<std::ptrdiff_t>(bytes));
  }
  return fields;
}

void expect_exact(const Shape& shape, const ArrayField& packed, Wire wire, std::size_t slab_bytes) {
  const auto images = numbers("image", {shape[0], 3});
  const auto dataset = tensor_dataset({images, packed});
  const auto batch = static_cast<std::size_t>(shape[0]);
  EXPECT_EQ(received_fields(dataset, batch, {{packed.name, wire}}),
            received_fields(dataset, batch, {}));
  const SlabLayout layout = DataLoader::plan_layout(
      *dataset, {}, {{.batch_size = batch}, {.wire = {{packed.name, wire}}}});
  EXPECT_EQ(layout.field(packed.name).sample_bytes, slab_bytes) << to_string(wire);
}

TEST(Wire, BitsRoundTripKeepsMasksOfFewClasses) {
  for (const std::int64_t samples : {1, 2, 5}) {
    for (const std::int64_t width : {1, 3, 7, 8, 16, 33}) {
      const Shape shape = {samples, 3, width};
      const auto pixels = static_cast<std::size_t>(3 * width);
      for (const auto& [classes, bits] :
           {std::pair<std::int64_t, std::size_t>{1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {16, 4}}) {
        const std::size_t bytes = (pixels * bits + 7) / 8;
        expect_exact(shape, class_numbers<std::uint8_t>("m", FieldKind::mask, shape, classes),
                     Wire::bits, bytes);
        expect_exact(shape, class_numbers<std::int64_t>("m", FieldKind::mask, shape, classes),
                     Wire::bits, bytes);
      }
    }
  }
}

TEST(Wire, SmallestUsesTheNarrowestIntegerType) {
  for (const auto& [classes, bytes] : {std::pair<std::int64_t, std::size_t>{256, 1},
                                       {257, 2},
                                       {65'536, 2},
                                       {65'537, 4},
                                       {2'147'483'647, 4},
                                       {2'147'483'648, 8}}) {
    for (const std::int64_t samples : {1, 3, 64}) {
      const Shape shape = {samples};
      expect_exact(shape, class_numbers<std::int64_t>("l", FieldKind::label, shape, classes),
                   Wire::smallest, bytes);
      if (classes > 65'537) continue;
      expect_exact(shape, class_numbers<std::int32_t>("l", FieldKind::label, shape, classes),
                   Wire::smallest, bytes);
    }
  }
}

TEST(Wire, OneHotVectorsAreSentAsIndices) {
  for (const std::int64_t classes : {1, 2, 10, 256, 257, 1000}) {
    for (const std::int64_t samples : {1, 2, 9}) {
      const Shape shape = {samples, 3, classes};
      const std::size_t bytes = classes > 256 ? 6 : 3;
      expect_exact(shape, vectors<float>("v", shape), Wire::one_hot, bytes);
      expect_exact(shape, vectors<std::uint8_t>("v", shape), Wire::one_hot, bytes);
      expect_exact(shape, vectors<std::int32_t>("v", shape), Wire::one_hot, bytes);
      expect_exact(shape, vectors<std::int64_t>("v", shape), Wire::one_hot, bytes);
    }
  }
}

TEST(Wire, HalfFormatsRoundEachValueOnce) {
  for (const std::int64_t values : {1, 7, 8, 100}) {
    const Shape shape = {4, values};
    const auto dataset = tensor_dataset({numbers("x", shape)});
    const Bytes plain = received_fields(dataset, 4, {}).front();
    const Bytes bf16 = received_fields(dataset, 4, {{"x", Wire::bf16}}).front();
    const Bytes f16 = received_fields(dataset, 4, {{"x", Wire::fp16}}).front();
    for (std::size_t i = 0; i < plain.size(); i += sizeof(float)) {
      float value = 0, from_b = 0, from_h = 0;
      std::memcpy(&value, &plain[i], sizeof(float));
      std::memcpy(&from_b, &bf16[i], sizeof(float));
      std::memcpy(&from_h, &f16[i], sizeof(float));
      ASSERT_EQ(from_b, from_bf16(to_bf16(value)));
      ASSERT_EQ(from_h, from_f16(to_f16(value)));
    }
    const SlabLayout layout =
        DataLoader::plan_layout(*dataset, {}, {{.batch_size = 4}, {.wire = {{"x", Wire::fp16}}}});
    EXPECT_EQ(layout.field("x").sample_bytes, static_cast<std::size_t>(values) * 2);
  }
}

// Compares the processor's conversion instruction, if it has one, with the conversion in integers.
TEST(Wire, Fp16MatchesToF16ForSpecialValues) {
  std::vector<std::uint32_t> bits;
  for (std::uint64_t word = 0; word < (std::uint64_t{1} << 32); word += 65'521) {
    bits.push_back(static_cast<std::uint32_t>(word));
  }
  const auto count = static_cast<std::int64_t>(bits.size());
  const auto dataset =
      tensor_dataset({field<float>("x", FieldKind::other, {1, count}, 0,
                                   [&](std::size_t i) { return std::bit_cast<float>(bits[i]); })});
  DataLoader loader(dataset, {}, {{.batch_size = 1}, {.wire = {{"x", Wire::fp16}}}});
  const auto* halves = reinterpret_cast<const std::uint16_t*>(loader.next().data);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(halves[i], to_f16(std::bit_cast<float>(bits[i]))) << std::hex << bits[i];
  }
}

TEST(Wire, SeveralPackedFieldsRoundTripInOneBlock) {
  const Shape masks = {6, 5, 5};
  const auto dataset = tensor_dataset(
      {class_numbers<std::uint8_t>("mask", FieldKind::mask, masks, 2), numbers("x", {6, 9}),
       class_numbers<std::int64_t>("label", FieldKind::label, {6}, 1000), numbers("y", {6, 2, 2}),
       vectors<float>("one", {6, 11})});
  const WireFormats exact = {
      {"mask", Wire::bits}, {"label", Wire::smallest}, {"one", Wire::one_hot}, {"x", Wire::plain}};
  EXPECT_EQ(received_fields(dataset, 6, exact), received_fields(dataset, 6, {}));
  const SlabLayout layout =
      DataLoader::plan_layout(*dataset, {}, {{.batch_size = 6}, {.wire = exact}});
  for (const SlabField& each : layout.fields) {
    EXPECT_EQ(each.offset_bytes % 256, 0U);
    EXPECT_EQ(each.device_offset_bytes % 256, 0U);
  }
  EXPECT_EQ(layout.copied_bytes, layout.bytes);
  EXPECT_EQ(layout.packed->size(), 3U);
}

TEST(Wire, FieldsThatStayOnTheHostAreNotCopied) {
  const auto dataset = tensor_dataset({numbers("first", {4, 100}), numbers("second", {4, 300})});
  const WireFormats wire = {{"first", Wire::host}};
  const SlabLayout layout =
      DataLoader::plan_layout(*dataset, {}, {{.batch_size = 4}, {.wire = wire}});
  EXPECT_EQ(layout.copied_bytes, 4864U);
  EXPECT_EQ(layout.device_bytes, 4864U);
  EXPECT_EQ(layout.field("first").offset_bytes, 4864U);
  EXPECT_EQ(layout.bytes, 4864U + 1792);
  EXPECT_EQ(received_fields(dataset, 4, wire).front(), received_fields(dataset, 4, {}).back());
}

TEST(Wire, InvalidFormatsAreRefusedTogether) {
  const auto dataset = tensor_dataset(
      {class_numbers<std::int64_t>("label", FieldKind::label, {4}, 17), numbers("x", {4, 3}),
       numbers("scalar", {4}), class_numbers<std::int32_t>("any", FieldKind::label, {4}, 5)});
  EXPECT_THAT(
      thrown_by([&] {
        DataLoader::plan_layout(*dataset, {},
                                {{.batch_size = 4},
                                 {.wire = {{"label", Wire::bits},
                                           {"x", Wire::smallest},
                                           {"scalar", Wire::one_hot},
                                           {"any", Wire::bf16},
                                           {"lable", Wire::plain}}}});
      }),
      testing::AllOf(
          HasSubstr("field 'label' cannot have the wire format bits: the format needs labels or a "
                    "mask of 1 to 16"),
          HasSubstr(
              "field 'x' cannot have the wire format smallest: the field's number of classes"),
          HasSubstr("field 'scalar' cannot have the wire format one_hot: the format needs vectors"),
          HasSubstr("field 'any' cannot have the wire format bf16: the format needs float32"),
          HasSubstr("unknown field 'lable'; did you mean 'label'?")));
  EXPECT_THAT(thrown_by([&] {
                DataLoader::plan_layout(*tensor_dataset({numbers("x", {4, 3})}), {},
                                        {{.batch_size = 4}, {.wire = {{"x", Wire::host}}}});
              }),
              HasSubstr("every field stays on the host"));
}

TEST(Wire, VectorThatIsNotOneHotThrows) {
  for (const auto& bad : {std::vector<float>{0, 0}, {1, 1}, {0.5F, 0}, {1, 0.5F}}) {
    const auto dataset = tensor_dataset(
        {field<float>("v", FieldKind::other, {1, 2}, 0, [&](std::size_t i) { return bad[i]; })});
    DataLoader loader(dataset, {}, {{.batch_size = 1}, {.wire = {{"v", Wire::one_hot}}}});
    EXPECT_THAT(thrown_by([&] { loader.next(); }),
                testing::AllOf(HasSubstr("step 'collate' of sample 0"),
                               HasSubstr("field 'v' has the wire format one_hot, but")));
  }
}

TEST(Wire, NamesRoundTrip) {
  for (const Wire wire : {Wire::plain, Wire::smallest, Wire::bits, Wire::one_hot, Wire::bf16,
                          Wire::fp16, Wire::host}) {
    EXPECT_EQ(wire_named(std::string(to_string(wire))), wire);
  }
  EXPECT_THAT(thrown_by([] { wire_named("bit"); }), HasSubstr("did you mean 'bits'?"));
}

}  // namespace
}  // namespace slipstream
