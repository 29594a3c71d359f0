#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include "engine/engine.h"
#include "slipstream/datasets/datasets.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

using testing::HasSubstr;

class WireRunTest : public EngineTest {
 protected:
  static constexpr std::uint64_t kSteps = 12;

  static Plan plan_with(const Lanes& lanes, Driver driver, const WireFormats& exact_ones,
                        const WireFormats& rounding = {}) {
    Plan plan = build_plan(lanes, driver, lanes.size() + 1, exact());
    plan.schedule.loader.wire = exact_ones;
    plan.numerics.wire = rounding;
    return plan;
  }

  template <typename T>
  static ArrayField field(const std::string& name, FieldKind kind, DType dtype, const Shape& shape,
                          std::int64_t classes, const std::function<double(std::size_t)>& make) {
    ArrayField result{name, kind, {}, classes};
    const MutableArray array = result.values.reset(dtype, shape);
    for (std::size_t i = 0; i < shape.elements(); ++i) array.as<T>()[i] = static_cast<T>(make(i));
    return result;
  }

  /// Images, masks, a one-hot vector and a float32 vector.
  static std::shared_ptr<const Dataset> four_fields() {
    return tensor_dataset(
        {field<std::uint8_t>("image", FieldKind::image, DType::uint8, {16, 8, 8, 3}, 0,
                             [](std::size_t i) { return i * 37 % 256; }),
         field<std::uint8_t>("label", FieldKind::mask, DType::uint8, {16, 8, 8}, 5,
                             [](std::size_t i) { return i * 7 % 5; }),
         field<float>("one", FieldKind::other, DType::float32, {16, 9}, 0,
                      [](std::size_t i) { return i % 9 == i / 9 % 9 ? 1 : 0; }),
         field<float>("x", FieldKind::other, DType::float32, {16, 7}, 0,
                      [](std::size_t i) { return 1.0 / static_cast<double>(i + 3); })});
  }

  /// Shifts the features by the sums of `fields`, so that the digest depends on the values of these
  /// fields.
  static Tiny shifted_by(const std::vector<std::string>& fields) {
    Tiny tiny{.dataset = four_fields()};
    tiny.extra = {{"shift", [fields](Batch& batch) {
                     at::Tensor features = batch.at("features");
                     for (const std::string& name : fields)
                       features = features + batch.at(name).cumsum(1).mean();
                     batch.set("features", features);
                   }}};
    return tiny;
  }
};

TEST_F(WireRunTest, ExactFormatsKeepTheDigestInEveryPlan) {
  const std::uint64_t plain = fresh_run({}, serial_plan(), steps(kSteps)).digest;
  for (const Lanes& lanes : {kThreeLanes, Lanes{{"copy", "encode", "train"}}})
    for (const Driver driver : {Driver::interleaved, Driver::threaded})
      for (const Wire wire : {Wire::bits, Wire::smallest}) {
        const Plan plan = plan_with(lanes, driver, {{"label", wire}});
        EXPECT_EQ(fresh_run({}, plan, steps(kSteps), delayed(400, 3)).digest, plain)
            << describe(plan) << ", " << to_string(wire);
      }
}

TEST_F(WireRunTest, PackedFieldsReadByStagesKeepTheDigest) {
  const Lanes lanes = {{"copy"}, {"encode", "shift"}, {"train"}};
  const Tiny tiny = shifted_by({"one", "x"});
  const std::uint64_t plain = fresh_run(tiny, serial_plan({"shift"}), steps(kSteps)).digest;
  const Plan packed =
      plan_with(lanes, Driver::threaded, {{"one", Wire::one_hot}, {"label", Wire::bits}});
  EXPECT_EQ(fresh_run(tiny, packed, steps(kSteps), delayed(400, 3)).digest, plain);
}

TEST_F(WireRunTest, RoundingFormatsChangeTheDigestAlikeInSerialAndPipelinedPlan) {
  const Lanes lanes = {{"copy"}, {"encode", "shift"}, {"train"}};
  const Tiny tiny = shifted_by({"x"});
  Plan serial = serial_plan({"shift"});
  const std::uint64_t plain = fresh_run(tiny, serial, steps(kSteps)).digest;
  for (const Wire wire : {Wire::bf16, Wire::fp16}) {
    serial.numerics.wire = {{"x", wire}};
    const std::uint64_t rounded = fresh_run(tiny, serial, steps(kSteps)).digest;
    EXPECT_NE(rounded, plain) << to_string(wire);
    const Plan pipelined = plan_with(lanes, Driver::threaded, {}, {{"x", wire}});
    EXPECT_EQ(fresh_run(tiny, pipelined, steps(kSteps), delayed(400, 3)).digest, rounded)
        << to_string(wire);
  }
}

TEST_F(WireRunTest, HostFieldsAreNotVisibleToStages) {
  const Lanes lanes = {{"copy"}, {"encode", "shift"}, {"train"}};
  const std::uint64_t plain =
      fresh_run(shifted_by({"one"}), serial_plan({"shift"}), steps(kSteps)).digest;
  const Plan plan = plan_with(lanes, Driver::threaded, {{"x", Wire::host}});
  EXPECT_EQ(fresh_run(shifted_by({"one"}), plan, steps(kSteps), delayed(400, 3)).digest, plain);
  EXPECT_THAT(
      thrown_by([&] { fresh_run(shifted_by({"x"}), plan, steps(kSteps), delayed(400, 3)); }),
      HasSubstr("unknown batch field 'x'"));
}

TEST_F(WireRunTest, UnsupportedFormatAndUnknownFieldAreRefused) {
  const Plan plan =
      plan_with(kThreeLanes, Driver::threaded, {{"image", Wire::bits}, {"lable", Wire::smallest}});
  EXPECT_THAT(thrown_by([&] { fresh_run({}, plan, steps(1)); }),
              testing::AllOf(testing::StartsWith("Refused: "),
                             HasSubstr("field 'image' cannot have the wire format bits"),
                             HasSubstr("unknown field 'lable'")));
}

}  // namespace
}  // namespace slipstream::test
