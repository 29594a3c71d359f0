#include "cuda/cross_entropy_kernel.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "cuda/cross_entropy_reference.h"
#include "cuda/device_buffer.h"
#include "gpu.h"

namespace slipstream::cuda {
namespace {

using test::CrossEntropyProblem;
using test::CrossEntropyResult;
using test::DeviceBuffer;

constexpr std::size_t kGuardBytes = 256;
constexpr int kCanary = 0xA5;

LogitLayout channels_last(std::int64_t images, std::int64_t classes, std::int64_t pixels) {
  return {images, classes, pixels, pixels * classes, 1, classes};
}
LogitLayout planar(std::int64_t images, std::int64_t classes, std::int64_t pixels) {
  return {images, classes, pixels, pixels * classes, pixels, 1};
}

std::vector<std::pair<std::string, LogitLayout>> layouts(std::int64_t n, std::int64_t c,
                                                         std::int64_t p) {
  return {{"channels-last", channels_last(n, c, p)},
          {"planar", planar(n, c, p)},
          {"channels-last, padded", {n, c, p, p * (c + 3) + 5, 1, c + 3}},
          {"planar, padded", {n, c, p, c * (p + 2) + 1, p + 2, 1}},
          {"every second element", {n, c, p, 2 * p * c, 2, 2 * c}},
          {"classes outermost", {n, c, p, p, n * p, 1}}};
}

// A problem in device memory, with canaries around and between all outputs.
class OnDevice {
 public:
  explicit OnDevice(const CrossEntropyProblem& problem, std::size_t shift_elements = 0)
      : problem_(problem),
        shift_(kGuardBytes + shift_elements * problem.element_bytes()),
        logits_(shift_ + problem.logits.size()),
        labels_(problem.label_bytes()),
        gradient_(shift_ + problem.logits.size() + kGuardBytes, kCanary),
        scratch_(cross_entropy_scratch_bytes(problem.layout) + kGuardBytes, kCanary),
        loss_(3, kCanary),
        correct_(3, kCanary) {
    std::vector<std::byte> logits(shift_);
    logits.insert(logits.end(), problem.logits.begin(), problem.logits.end());
    logits_.write(logits);
  }

  void run(StreamView stream) {
    cross_entropy_async(logits_.get() + shift_, problem_.type, problem_.layout, labels_.get(),
                        problem_.label_type, problem_.scale, gradient_.get() + shift_,
                        loss_.get() + 1, correct_.get() + 1, scratch_.get(), stream);
  }

  float loss() const { return loss_.read()[1]; }
  std::int64_t correct() const { return correct_.read()[1]; }
  std::vector<std::byte> gradient() const {
    const std::vector<std::byte> all = gradient_.read();
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(shift_);
    return {first, first + static_cast<std::ptrdiff_t>(problem_.logits.size())};
  }

  void expect_canaries(const std::vector<bool>& is_addressed) const {
    std::vector<std::byte> left = gradient_.read();
    const std::size_t width = problem_.element_bytes();
    for (std::size_t e = 0; e < is_addressed.size(); ++e) {
      if (!is_addressed[e]) continue;
      std::fill_n(left.begin() + static_cast<std::ptrdiff_t>(shift_ + e * width), width,
                  std::byte{kCanary});
    }
    EXPECT_EQ(left, std::vector<std::byte>(left.size(), std::byte{kCanary})) << "gradient";
    const std::vector<std::byte> scratch = scratch_.read();
    EXPECT_EQ(std::vector<std::byte>(scratch.end() - kGuardBytes, scratch.end()),
              std::vector<std::byte>(kGuardBytes, std::byte{kCanary}))
        << "scratch";
    const std::vector<float> losses = loss_.read();
    EXPECT_EQ(std::memcmp(&losses[0], &losses[2], sizeof(float)), 0) << "loss";
    const std::vector<std::int64_t> counts = correct_.read();
    EXPECT_EQ(counts[0], counts[2]) << "correct";
  }

 private:
  const CrossEntropyProblem& problem_;
  std::size_t shift_;
  DeviceBuffer<std::byte> logits_, labels_, gradient_, scratch_;
  DeviceBuffer<float> loss_;
  DeviceBuffer<std::int64_t> correct_;
};

// Returns the allowed difference between gradient and reference: float32 arithmetic, then one
// rounding to the type.
double tolerance(const CrossEntropyProblem& problem, double expected) {
  const auto total = static_cast<double>(problem.layout.images * problem.layout.pixels);
  const double arithmetic = 4e-6 * static_cast<double>(problem.scale) / total;
  if (problem.type == LogitType::f32) return arithmetic;
  if (problem.type == LogitType::bf16) return arithmetic + std::abs(expected) / 256;
  return arithmetic + std::abs(expected) / 2048 + 6e-8;
}

void expect_solved(const CrossEntropyProblem& problem, const OnDevice& device) {
  const CrossEntropyResult expected = test::solve(problem);
  EXPECT_NEAR(device.loss(), expected.loss, 1e-6 + 3e-6 * std::abs(expected.loss));
  EXPECT_EQ(device.correct(), expected.correct);
  const std::vector<std::byte> gradient = device.gradient();
  std::size_t wrong = 0;
  for (std::size_t e = 0; e < expected.gradient.size(); ++e) {
    if (!expected.is_addressed[e]) continue;
    const double want = expected.gradient[e];
    const auto got = static_cast<double>(
        test::decode(gradient.data() + e * problem.element_bytes(), problem.type));
    if (std::abs(got - want) <= tolerance(problem, want)) continue;
    if (wrong++ == 0) ADD_FAILURE() << "element " << e << ": " << got << ", not " << want;
  }
  EXPECT_EQ(wrong, 0U);
  device.expect_canaries(expected.is_addressed);
}

void check(const CrossEntropyProblem& problem, std::size_t shift_elements = 0) {
  const Stream stream(0);
  OnDevice device(problem, shift_elements);
  device.run(stream);
  stream.synchronize();
  expect_solved(problem, device);
}

class CrossEntropyTest : public test::GpuTest {
 protected:
  static void check_classes(LogitType type, LabelType label_type) {
    for (const std::int64_t classes : {1, 2, 3, 7, 8, 9, 10, 12, 16, 19, 31, 32, 33, 64, 150}) {
      for (const auto& [images, pixels] :
           std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {3, 31}, {2, 257}}) {
        for (const auto& [name, layout] : layouts(images, classes, pixels)) {
          SCOPED_TRACE(name + ", " + std::to_string(classes) + " classes, " +
                       std::to_string(images) + " x " + std::to_string(pixels));
          check(test::random_problem(layout, type, label_type));
          if (HasFailure()) return;
        }
      }
    }
  }
};

TEST_F(CrossEntropyTest, Float32LogitsWithUint8LabelsMatchReference) {
  check_classes(LogitType::f32, LabelType::u8);
}
TEST_F(CrossEntropyTest, Float32LogitsWithInt64LabelsMatchReference) {
  check_classes(LogitType::f32, LabelType::i64);
}
TEST_F(CrossEntropyTest, Bfloat16LogitsWithUint8LabelsMatchReference) {
  check_classes(LogitType::bf16, LabelType::u8);
}
TEST_F(CrossEntropyTest, Bfloat16LogitsWithInt64LabelsMatchReference) {
  check_classes(LogitType::bf16, LabelType::i64);
}
TEST_F(CrossEntropyTest, Float16LogitsWithUint8LabelsMatchReference) {
  check_classes(LogitType::f16, LabelType::u8);
}
TEST_F(CrossEntropyTest, Float16LogitsWithInt64LabelsMatchReference) {
  check_classes(LogitType::f16, LabelType::i64);
}

TEST_F(CrossEntropyTest, Float32LogitsWithProbabilitiesMatchReference) {
  check_classes(LogitType::f32, LabelType::probabilities);
}
TEST_F(CrossEntropyTest, Bfloat16LogitsWithProbabilitiesMatchReference) {
  check_classes(LogitType::bf16, LabelType::probabilities);
}
TEST_F(CrossEntropyTest, Float16LogitsWithProbabilitiesMatchReference) {
  check_classes(LogitType::f16, LabelType::probabilities);
}

TEST_F(CrossEntropyTest, MinusInfinityLogitWithZeroProbabilityAddsNoLoss) {
  CrossEntropyProblem problem =
      test::random_problem(channels_last(3, 40, 1), LogitType::f32, LabelType::probabilities);
  const float never = -std::numeric_limits<float>::infinity();
  std::memcpy(problem.logits.data(), &never, sizeof never);  // class 0 of pixel 0
  problem.probabilities[0] = 0;
  check(problem);
}

TEST_F(CrossEntropyTest, UnalignedMemoryMatchesReference) {
  for (const LogitType type : {LogitType::f32, LogitType::bf16, LogitType::f16}) {
    check(test::random_problem(channels_last(2, 10, 333), type, LabelType::u8), 1);
    check(test::random_problem(channels_last(2, 100, 33), type, LabelType::u8), 3);
  }
}

TEST_F(CrossEntropyTest, MoreClassesThanThreadsInBlockMatchReference) {
  for (const auto& [name, layout] : layouts(32, 1000, 1)) {
    SCOPED_TRACE(name);
    check(test::random_problem(layout, LogitType::f32, LabelType::i64));
  }
}

TEST_F(CrossEntropyTest, SegmentationWorkloadMatchesReference) {
  for (const LogitType type : {LogitType::f32, LogitType::bf16}) {
    check(test::random_problem(channels_last(8, 10, 65'536), type, LabelType::u8));
    check(test::random_problem(planar(8, 10, 65'536), type, LabelType::i64));
  }
}

TEST_F(CrossEntropyTest, MorePixelsThanThreadsInLargestGridMatchReference) {
  check(test::random_problem(channels_last(20, 10, 65'537), LogitType::f32, LabelType::u8));
  check(test::random_problem(channels_last(20, 3, 65'537), LogitType::f32, LabelType::u8));
  check(test::random_problem(planar(20, 10, 65'537), LogitType::f32, LabelType::u8));
  check(test::random_problem(channels_last(3, 40, 32'771), LogitType::f32, LabelType::u8));
}

TEST_F(CrossEntropyTest, MinusInfinityLogitOfOtherClassMatchesReference) {
  for (const std::int64_t classes : {10, 12, 40}) {
    for (const auto& [name, layout] : layouts(1, classes, 50)) {
      SCOPED_TRACE(name + ", " + std::to_string(classes) + " classes");
      CrossEntropyProblem problem = test::random_problem(layout, LogitType::f32, LabelType::u8);
      const float never = -std::numeric_limits<float>::infinity();
      std::memcpy(problem.logits.data(), &never, sizeof never);  // class 0 of pixel 0
      problem.labels[0] = 1;
      check(problem);
    }
  }
}

TEST_F(CrossEntropyTest, OutOfRangeLabelGivesNanLossAndWritesNothingOutOfBounds) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  for (const std::int64_t classes : {10, 12, 40}) {
    for (const std::int64_t label : {classes, std::int64_t{255}, std::int64_t{-1}, kFar, -kFar,
                                     std::numeric_limits<std::int64_t>::min()}) {
      const bool is_byte = label >= 0 && label < 256;
      for (const auto& [name, layout] : layouts(2, classes, 77)) {
        SCOPED_TRACE(name + ", label " + std::to_string(label));
        CrossEntropyProblem problem =
            test::random_problem(layout, LogitType::f32, is_byte ? LabelType::u8 : LabelType::i64);
        problem.labels[99] = label;
        const CrossEntropyResult expected = test::solve(problem);
        const Stream stream(0);
        OnDevice device(problem);
        device.run(stream);
        stream.synchronize();
        EXPECT_TRUE(std::isnan(device.loss()));
        EXPECT_EQ(device.correct(), expected.correct);
        device.expect_canaries(expected.is_addressed);
      }
    }
  }
}

TEST_F(CrossEntropyTest, RepeatedRunsAreBitIdenticalUnderLoad) {
  const Stream stream(0);
  const Stream load(0, 100);
  const DeviceBuffer<std::byte> ballast(std::size_t{256} << 20, 3);
  const DeviceBuffer<std::uint64_t> digest(1);
  for (const LogitLayout& layout : {channels_last(8, 10, 65'536), planar(8, 10, 65'536),
                                    channels_last(3, 19, 20'001), channels_last(64, 1000, 7)}) {
    const LabelType label = layout.pixels == 7 ? LabelType::probabilities : LabelType::i64;
    const CrossEntropyProblem problem = test::random_problem(layout, LogitType::f32, label);
    OnDevice first(problem);
    first.run(stream);
    stream.synchronize();
    OnDevice again(problem);
    for (int run = 0; run < 20; ++run) {
      for (int k = 0; run >= 5 && k < 4; ++k) {
        fingerprint_async(ballast.get(), ballast.bytes(), digest.get(), load);
      }
      again.run(stream);
      stream.synchronize();
      const float losses[] = {first.loss(), again.loss()};
      EXPECT_EQ(std::memcmp(&losses[0], &losses[1], sizeof(float)), 0);
      EXPECT_EQ(again.correct(), first.correct());
      EXPECT_EQ(again.gradient(), first.gradient());
    }
    load.synchronize();
  }
}

TEST_F(CrossEntropyTest, EmptyBatchThrowsLogicError) {
  const Stream stream(0);
  EXPECT_THROW(cross_entropy_async(nullptr, LogitType::f32, channels_last(0, 10, 5), nullptr,
                                   LabelType::u8, 1, nullptr, nullptr, nullptr, nullptr, stream),
               std::logic_error);
}

}  // namespace
}  // namespace slipstream::cuda
