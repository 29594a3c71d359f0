#include "slipstream/core/array.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

namespace slipstream {
namespace {

TEST(DType, HasSizeAndName) {
  EXPECT_EQ(size_bytes(DType::uint8), 1u);
  EXPECT_EQ(size_bytes(DType::int32), 4u);
  EXPECT_EQ(size_bytes(DType::int64), 8u);
  EXPECT_EQ(size_bytes(DType::float32), 4u);
  EXPECT_EQ(to_string(DType::uint8), "uint8");
  EXPECT_EQ(to_string(DType::int32), "int32");
  EXPECT_EQ(to_string(DType::int64), "int64");
  EXPECT_EQ(to_string(DType::float32), "float32");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape().elements(), 1u);
  EXPECT_EQ(Shape({5}).elements(), 5u);
  EXPECT_EQ(Shape({2, 3, 4, 5}).elements(), 120u);
  EXPECT_EQ(Shape({7, 0, 3}).elements(), 0u);
}

TEST(Shape, MinusOneDimensionIsNotFixedAndHasNoElementCount) {
  EXPECT_TRUE(Shape().is_fixed());
  EXPECT_TRUE(Shape({4, 3}).is_fixed());
  EXPECT_FALSE(Shape({-1, 3}).is_fixed());
  EXPECT_THROW(Shape({-1, 3}).elements(), std::logic_error);
}

TEST(Shape, RefusesFiveDimensions) { EXPECT_THROW(Shape({1, 2, 3, 4, 5}), std::logic_error); }

TEST(Shape, ComparesRankAndDimensions) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_NE(Shape({2, 3}), Shape({3, 2}));
  EXPECT_NE(Shape({2}), Shape({2, 0}));
}

TEST(Shape, ToStringJoinsDimensionsWithX) {
  EXPECT_EQ(to_string(Shape({256, 128, 3})), "256 x 128 x 3");
  EXPECT_EQ(to_string(Shape({-1, -1, 3})), "? x ? x 3");
  EXPECT_EQ(to_string(Shape()), "scalar");
}

TEST(HostArray, ResetToNoMoreBytesKeepsItsMemory) {
  HostArray array;
  const std::byte* memory = array.reset(DType::float32, {10, 10}).data;
  EXPECT_EQ(array.reset(DType::uint8, {7}).data, memory);
  EXPECT_EQ(array.view().shape, Shape({7}));
  EXPECT_EQ(array.view().bytes(), 7u);
  EXPECT_EQ(array.reset(DType::int64, {50}).data, memory);
}

TEST(HostArray, AssignCopies) {
  const std::int32_t values[4] = {1, -2, 3, -4};
  const ConstArray from{reinterpret_cast<const std::byte*>(values), DType::int32, {2, 2}};
  HostArray array;
  array.assign(from);
  EXPECT_NE(array.view().data, from.data);
  EXPECT_EQ(array.view().dtype, DType::int32);
  EXPECT_EQ(array.view().shape, from.shape);
  EXPECT_EQ(std::memcmp(array.view().data, values, sizeof(values)), 0);
}

TEST(HostArray, AssigningAnEmptyArrayHoldsNoBytes) {
  HostArray array;
  array.assign({nullptr, DType::uint8, {0}});
  EXPECT_EQ(array.view().bytes(), 0u);
}

}  // namespace
}  // namespace slipstream
