#include <cstring>
#include <random>

#include "cuda/device_buffer.h"
#include "gpu.h"

namespace slipstream::cuda {
namespace {

using test::DeviceBuffer;

struct Form {
  Element from, to;
  std::uint32_t classes;
};

constexpr Form kForms[] = {
    {Element::u1, Element::u8, 0},    {Element::u2, Element::u8, 0},
    {Element::u4, Element::u8, 0},    {Element::u16, Element::i32, 0},
    {Element::u16, Element::i64, 0},  {Element::i32, Element::i64, 0},
    {Element::bf16, Element::f32, 0}, {Element::f16, Element::f32, 0},
    {Element::u8, Element::f32, 10},  {Element::u8, Element::u8, 3},
    {Element::u16, Element::i64, 7},  {Element::u16, Element::i32, 300},
};

class UnpackGpuTest : public test::GpuTest {
 protected:
  /// Adds a field after the existing ones.
  void add(const Form& form, std::size_t samples, std::size_t values) {
    PackedField field{form.from, form.to, form.classes, samples, values, 0, 0, 0};
    field.from_sample_bytes = (values * bits_per_element(form.from) + 7) / 8;
    field.from_offset_bytes = bytes_;
    field.to_offset_bytes = bytes_ + round_up(samples * field.from_sample_bytes, 256);
    bytes_ = field.to_offset_bytes + field.to_bytes();
    fields_.push_back(field);
  }

  // Returns random packed bytes; classes are below the field's number of classes, as in a collated
  // batch.
  std::vector<std::byte> make_random_block() const {
    std::mt19937 random(1);
    std::vector<std::byte> block(bytes_);
    for (std::byte& byte : block) byte = static_cast<std::byte>(random());
    for (const PackedField& field : fields_) {
      if (field.classes == 0) continue;
      const std::size_t step = bits_per_element(field.from) / 8;
      for (std::size_t i = 0; i < field.samples * field.values; ++i) {
        const auto place = static_cast<std::uint32_t>(random() % field.classes);
        std::memcpy(&block[field.from_offset_bytes + i * step], &place, step);
      }
    }
    return block;
  }

  void expect_matches_host() const {
    std::vector<std::byte> block = make_random_block();
    const DeviceBuffer<std::byte> memory(block);
    const Stream stream(0);
    unpack_async(fields_, memory.get(), stream);
    stream.synchronize();
    unpack(fields_, block.data());
    const std::vector<std::byte> result = memory.read();
    for (const PackedField& field : fields_) {
      const std::size_t bytes = field.outputs() * bits_per_element(field.to) / 8;
      const auto first = static_cast<std::ptrdiff_t>(field.to_offset_bytes);
      const auto last = first + static_cast<std::ptrdiff_t>(bytes);
      ASSERT_TRUE(std::equal(block.begin() + first, block.begin() + last, result.begin() + first))
          << static_cast<int>(field.from) << " to " << static_cast<int>(field.to) << ", "
          << field.samples << " samples of " << field.values;
    }
  }

  std::vector<PackedField> fields_;
  std::size_t bytes_ = 0;
};

TEST_F(UnpackGpuTest, MatchesHostForEveryFormatAndSmallSizes) {
  for (const Form& form : kForms) {
    for (std::size_t values = 1; values <= 70; ++values) {
      for (const std::size_t samples : {1, 2, 5}) {
        fields_.clear();
        bytes_ = 0;
        add(form, samples, values);
        expect_matches_host();
      }
    }
  }
}

TEST_F(UnpackGpuTest, MatchesHostForManyFieldsAtOnce) {
  for (std::size_t i = 0; i < 40; ++i) add(kForms[i % std::size(kForms)], 3 + i % 4, 100 + 37 * i);
  expect_matches_host();
}

TEST_F(UnpackGpuTest, MatchesHostForLargeFields) {
  add({Element::bf16, Element::f32, 0}, 32, 150'528);
  add({Element::u1, Element::u8, 0}, 32, 65'536);
  add({Element::u4, Element::u8, 0}, 7, 65'537);
  expect_matches_host();
}

TEST_F(UnpackGpuTest, EmptyFieldListDoesNothing) {
  const Stream stream(0);
  unpack_async({}, nullptr, stream);
  stream.synchronize();
}

}  // namespace
}  // namespace slipstream::cuda
