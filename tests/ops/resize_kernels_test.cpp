#include "ops/resize_kernels.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace slipstream {
namespace {

using Levels = std::vector<std::uint8_t>;

struct Case {
  std::int64_t in, out;
};

constexpr Case kCases[] = {{1, 1}, {1, 9}, {9, 1}, {2, 3}, {16, 5}, {17, 16}, {33, 7}, {7, 70}};

// Exactly as large as its contents, so that AddressSanitizer sees a read past its end.
std::unique_ptr<std::uint8_t[]> noise(std::int64_t count) {
  auto levels = std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    levels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i * i * 31 + i * 7);
  }
  return levels;
}

class PlacedFilter {
 public:
  explicit PlacedFilter(const Case& size)
      : filter({size.in, 0, static_cast<double>(size.in)}, size.out) {
    memory_.resize(static_cast<std::size_t>(filter.bytes()) / sizeof(std::int32_t));
    filter.place(reinterpret_cast<std::byte*>(memory_.data()));
  }
  AxisFilter filter;

 private:
  std::vector<std::int32_t> memory_;
};

const ResizeKernels& plain_form() { return resize_kernels().front(); }

TEST(ResizeKernels, AllFormsOfRowsComputeTheSame) {
  constexpr std::int64_t kApart = 5;
  for (const ResizeKernels& form : resize_kernels()) {
    for (const Case& size : kCases) {
      for (const std::int64_t rows : {1, 4, 6, 8}) {
        SCOPED_TRACE(std::string(form.name) + ": " + std::to_string(size.in) + " to " +
                     std::to_string(size.out) + ", " + std::to_string(rows) + " rows");
        const PlacedFilter across(size);
        const std::int64_t stride = 3 * size.in + kApart;
        const auto in = noise(rows * stride - kApart + form.overread);
        Levels expected(static_cast<std::size_t>(rows * size.out * 3));
        Levels found = expected;
        plain_form().filter_rows(across.filter, in.get(), stride, rows, expected.data());
        form.filter_rows(across.filter, in.get(), stride, rows, found.data());
        EXPECT_EQ(found, expected);
      }
    }
  }
}

TEST(ResizeKernels, AllFormsOfColumnsComputeTheSame) {
  for (const ResizeKernels& form : resize_kernels()) {
    for (const Case& size : kCases) {
      for (const std::int64_t columns : {1, 15, 16, 17, 32, 48, 300}) {
        SCOPED_TRACE(std::string(form.name) + ": " + std::to_string(size.in) + " to " +
                     std::to_string(size.out) + ", " + std::to_string(columns) + " columns");
        const PlacedFilter down(size);
        const auto in = noise(size.in * columns);
        Levels expected(static_cast<std::size_t>(columns));
        Levels found = expected;
        for (std::int64_t y = 0; y < size.out; ++y) {
          plain_form().filter_columns(down.filter, y, in.get(), columns, columns, expected.data());
          form.filter_columns(down.filter, y, in.get(), columns, columns, found.data());
          EXPECT_EQ(found, expected);
        }
      }
    }
  }
}

TEST(ResizeKernels, TheQuickestFormOfThisMachineIsUsed) {
#if defined(__x86_64__)
  EXPECT_EQ(resize_kernels().back().name, __builtin_cpu_supports("avx2") ? "avx2" : "sse2");
#endif
  EXPECT_EQ(plain_form().overread, 0);
}

TEST(AxisFilter, WeightsAddUpToOne) {
  for (const Case& size : kCases) {
    const PlacedFilter placed(size);
    const AxisFilter& filter = placed.filter;
    for (std::int64_t i = 0; i < size.out; ++i) {
      ASSERT_GE(filter.first(i), 0);
      ASSERT_GE(filter.count(i), 1);
      ASSERT_LE(filter.count(i), filter.taps());
      ASSERT_LE(filter.first(i) + filter.count(i), size.in);
      int sum = 0;
      for (std::int64_t tap = 0; tap < filter.taps(); ++tap) {
        sum += (filter.high(i)[tap] << AxisFilter::kLowBits) + filter.low(i)[tap];
      }
      EXPECT_NEAR(sum, 1 << AxisFilter::kFractionBits, filter.count(i));
    }
  }
}

}  // namespace
}  // namespace slipstream
