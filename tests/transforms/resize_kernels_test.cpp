#include "transforms/resize_kernels.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "transforms/best_code.h"
#include "transforms/interpolation.h"

namespace slipstream {
namespace {

using Levels = std::vector<std::uint8_t>;

struct Sizes {
  std::int64_t in, out;
};

constexpr Sizes kCases[] = {{1, 1},   {1, 9},   {9, 1},    {2, 3},    {16, 5},    {17, 16},
                            {33, 7},  {7, 70},  {22, 6},   {25, 200}, {256, 224}, {100, 31},
                            {70, 23}, {64, 20}, {300, 10}, {300, 400}};

// Allocates no more than needed, so that AddressSanitizer detects a read past the end.
std::unique_ptr<std::uint8_t[]> noise(std::int64_t count) {
  auto levels = std::make_unique<std::uint8_t[]>(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    levels[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i * i * 31 + i * 7);
  }
  return levels;
}

class PlacedFilter {
 public:
  PlacedFilter(FilterKind kind, const Sizes& size)
      : filter(kind, {size.in, 0, static_cast<double>(size.in)}, size.out) {
    memory_.resize(static_cast<std::size_t>(filter.bytes()) / sizeof(std::int32_t));
    filter.place(reinterpret_cast<std::byte*>(memory_.data()));
  }
  AxisFilter filter;

 private:
  std::vector<std::int32_t> memory_;
};

/// Returns true if rows have at least the length of a vector, and all taps of adjacent outputs fit
/// into one vector.
bool is_made_for_vectors(const Sizes& size) {
  return size.in >= 22 && size.out >= 6 && 2 * size.in <= 5 * size.out;
}

constexpr FilterKind kFilterKinds[] = {FilterKind::triangle, FilterKind::cubic,
                                       FilterKind::cubic_points};

std::string filter_text(FilterKind kind, const Sizes& size) {
  constexpr const char* kNames[] = {"triangle", "cubic", "cubic_points"};
  return std::string(kNames[static_cast<std::size_t>(kind)]) + " from " + std::to_string(size.in) +
         " to " + std::to_string(size.out);
}

/// Calls test(kind, size) for every filter.
template <typename Test>
void for_each_filter(Test test) {
  for (const FilterKind kind : kFilterKinds) {
    for (const Sizes& size : kCases) {
      SCOPED_TRACE(filter_text(kind, size));
      test(kind, size);
    }
  }
}

const ResizeKernels& plain_form() { return resize_kernels().front(); }

TEST(ResizeKernels, AllRowKernelsComputeTheSame) {
  constexpr std::int64_t kApart = 5;
  for_each_filter([](FilterKind kind, const Sizes& size) {
    for (const ResizeKernels& form : resize_kernels()) {
      for (const std::int64_t rows : {1, 4, 6, 8}) {
        SCOPED_TRACE(std::string(form.name) + ", " + std::to_string(rows) + " rows");
        const PlacedFilter across(kind, size);
        const std::int64_t stride = 3 * size.in + kApart;
        const auto in = noise(rows * stride - kApart + form.overread);
        Levels expected(static_cast<std::size_t>(rows * size.out * 3));
        Levels found = expected;
        plain_form().filter_rows(across.filter, in.get(), stride, rows, expected.data());
        const std::int64_t done =
            form.filter_rows(across.filter, in.get(), stride, rows, found.data());
        if (form.name == "avx512" && !is_made_for_vectors(size) && done == 0) continue;
        EXPECT_EQ(done, rows);
        EXPECT_EQ(found, expected);
      }
    }
  });
}

TEST(ResizeKernels, AllColumnKernelsComputeTheSame) {
  for_each_filter([](FilterKind kind, const Sizes& size) {
    for (const ResizeKernels& form : resize_kernels()) {
      for (const std::int64_t columns : {1, 15, 16, 17, 32, 48, 63, 64, 65, 300}) {
        SCOPED_TRACE(std::string(form.name) + ", " + std::to_string(columns) + " columns");
        const PlacedFilter down(kind, size);
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
  });
}

// The weights of a bicubic filter are partly negative, so sums may leave the range of levels.
TEST(ResizeKernels, SumsOutsideOfTheRangeOfLevelsAreClamped) {
  for (const ResizeKernels& form : resize_kernels()) {
    SCOPED_TRACE(form.name);
    constexpr Sizes kSize{64, 128};
    const PlacedFilter filter(FilterKind::cubic, kSize);
    std::vector<std::uint8_t> in(static_cast<std::size_t>(3 * kSize.in + form.overread));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = i / 12 % 2 == 0 ? 0 : 255;
    Levels out(static_cast<std::size_t>(3 * kSize.out));
    ASSERT_EQ(form.filter_rows(filter.filter, in.data(), 3 * kSize.in, 1, out.data()), 1);
    EXPECT_EQ(out[15], 0) << "next to a step up, above 0 by rounding alone if it wraps around";
    EXPECT_EQ(out[3 * 9], 255);
  }
}

#if defined(__x86_64__)
TEST(ResizeKernels, Avx512RowInterpolationMatchesScalarCode) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512 with VBMI and VNNI here";
  for (const Sizes& size : kCases) {
    for (const std::int64_t rows : {1, 4, 7}) {
      SCOPED_TRACE(std::to_string(size.in) + " to " + std::to_string(size.out) + ", " +
                   std::to_string(rows) + " rows");
      const std::int64_t stride = 3 * size.in;
      const auto in = noise(rows * stride);
      std::vector<Neighbors> across;
      for (std::int32_t x = 0; x < size.out; ++x) {
        across.push_back(resized_axis(x, static_cast<std::int32_t>(size.in),
                                      static_cast<float>(size.in) / static_cast<float>(size.out)));
      }
      std::vector<float> expected;
      for (std::int64_t i = 0; i < rows * size.out * 3; ++i) {
        const Neighbors& of = across[static_cast<std::size_t>(i / 3 % size.out)];
        const std::uint8_t* row = in.get() + i / (3 * size.out) * stride + i % 3;
        expected.push_back(between(row[3 * of.first], row[3 * of.second], of.weight));
      }
      std::vector<float> found(expected.size());
      const std::int64_t done =
          avx512::between_rows(across, size.in, in.get(), stride, rows, found.data());
      if (!is_made_for_vectors(size) && done == 0) continue;
      EXPECT_EQ(done, rows);
      EXPECT_EQ(found, expected);
    }
  }
}
#endif

TEST(ResizeKernels, LastKernelIsTheFastestForThisCpu) {
#if defined(__x86_64__)
  const bool has_avx2 = __builtin_cpu_supports("avx2");
  EXPECT_EQ(resize_kernels().back().name, has_avx512() ? "avx512" : has_avx2 ? "avx2" : "sse2");
#endif
  EXPECT_EQ(plain_form().overread, 0);
}

TEST(AxisFilter, WeightsSumToOne) {
  for_each_filter([](FilterKind kind, const Sizes& size) {
    const PlacedFilter placed(kind, size);
    const AxisFilter& filter = placed.filter;
    for (std::int64_t i = 0; i < size.out; ++i) {
      ASSERT_GE(filter.first(i), 0);
      ASSERT_GE(filter.count(i), 1);
      ASSERT_LE(filter.count(i), filter.taps());
      ASSERT_LE(filter.first(i) + filter.count(i), size.in);
      int sum = 0;
      for (std::int64_t tap = 0; tap < filter.taps(); ++tap) {
        sum += filter.high(i)[tap] * (1 << AxisFilter::kLowBits) + filter.low(i)[tap];
      }
      EXPECT_NEAR(sum, 1 << AxisFilter::kFractionBits, filter.count(i));
    }
  });
}

}  // namespace
}  // namespace slipstream
