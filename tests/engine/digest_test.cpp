#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/conv.h>

#include <array>
#include <stdexcept>

#include "core/fingerprint.h"
#include "engine/digest.h"
#include "engine/engine.h"
#include "support/thrown.h"

namespace slipstream::test {
namespace {

class DigestTest : public EngineTest {
 protected:
  static at::Tensor on_device(const at::Tensor& tensor) { return tensor.to(context().device()); }
  static std::uint64_t of(const at::Tensor& tensor) { return compute_digest(std::array{tensor}); }
};

TEST_F(DigestTest, MatchesFingerprintOfBytesAtAnyOffset) {
  const at::Tensor bytes = at::randint(256, {5000}, at::kByte);
  const at::Tensor there = on_device(bytes);
  for (std::int64_t begin = 0; begin <= 17; ++begin)
    for (const std::int64_t length : {0, 1, 7, 16, 33, 4097}) {
      const at::Tensor view = bytes.narrow(0, begin, length);
      const std::uint64_t expected =
          chain64(0, fingerprint(view.const_data_ptr(), static_cast<std::size_t>(length)));
      EXPECT_EQ(of(there.narrow(0, begin, length)), expected) << begin << ", " << length;
    }
}

TEST_F(DigestTest, NonContiguousTensorHasDigestOfContiguousCopy) {
  // Large, so that the digest starts while a copy is still running. Values differ each time,
  // because PyTorch's allocator returns the same memory again.
  for (int turn = 0; turn < 3; ++turn) {
    const at::Tensor whole = at::rand({on_gpu() ? 32768 : 512, 1024});
    const at::Tensor there = on_device(whole);
    EXPECT_EQ(of(there.narrow(1, 1, 1022)), of(whole.narrow(1, 1, 1022).contiguous())) << turn;
  }
}

TEST_F(DigestTest, DependsOnTensorOrderButNotOnDevice) {
  std::vector<at::Tensor> here;
  for (int i = 0; i < 6; ++i) here.push_back(at::rand({100 + i}));
  std::vector<at::Tensor> mixed = here;
  mixed[1] = on_device(here[1]);
  mixed[2] = on_device(here[2]);
  mixed[4] = on_device(at::cat({at::zeros({1}), here[4]})).narrow(0, 1, here[4].numel());
  EXPECT_EQ(compute_digest(mixed), compute_digest(here));
  std::swap(mixed[1], mixed[2]);
  EXPECT_NE(compute_digest(mixed), compute_digest(here));
  EXPECT_EQ(compute_digest({}), 0U);
}

/// An optimizer with state of every kind: on the host, on the device, and at an odd offset on the
/// device.
class MixedDeviceOptimizer final : public Optimizer {
 public:
  void bind(std::vector<NamedTensor> parameters) override {
    parameters_.clear();
    for (const NamedTensor& each : parameters) parameters_.push_back(each.tensor);
    steps_ = at::zeros({1});
    sums_.clear();
    for (const at::Tensor& parameter : parameters_)
      sums_.push_back(
          at::zeros({parameter.numel() + 1}, parameter.options()).narrow(0, 1, parameter.numel()));
  }
  void step(const Update&) override {
    steps_.add_(1);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      sums_[i].add_(parameters_[i].grad().reshape(-1));
      parameters_[i].sub_(sums_[i].view_as(parameters_[i]), 0.01);
    }
  }
  std::vector<NamedTensor> state() const override {
    if (hides_its_state) throw std::runtime_error("no luck");
    std::vector<NamedTensor> all;
    for (const at::Tensor& sum : sums_) all.push_back({"sum." + std::to_string(all.size()), sum});
    all.push_back({"steps", steps_});
    return all;
  }

  double lr() const override { return 0.01; }

  bool hides_its_state = false;

 private:
  std::vector<at::Tensor> parameters_, sums_;
  at::Tensor steps_;
};

Pipeline pipeline_with_optimizer(const std::shared_ptr<MixedDeviceOptimizer>& optimizer =
                                     std::make_shared<MixedDeviceOptimizer>()) {
  at::manual_seed(1);
  const torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 5, 1));
  return pipeline(synthetic_segmentation({32, 8, 5, 1}), {4})
      .stage("encode", frozen([](Batch& batch) {
               batch.set("features", batch.at("image").to(at::kFloat).div(255));
             }))
      .train("train", conv, optimizer, cross_entropy("features", "label"));
}

TEST_F(DigestTest, MixedDeviceOptimizerStateMatchesInPipelinedPlanAndAfterRestore) {
  Trainer serial(pipeline_with_optimizer(), context(), exact());
  Trainer pipelined(pipeline_with_optimizer(), context(), exact());
  const RunResult result = serial.run(serial_plan(), steps(8));
  EXPECT_EQ(pipelined.run(build_plan(kThreeLanes, Driver::threaded, 3), steps(8)).digest,
            result.digest);
  const State state = serial.state();
  EXPECT_NE(serial.run(serial_plan(), steps(1)).digest, result.digest);
  serial.restore(state);
  EXPECT_EQ(serial.digest(), result.digest);
}

TEST_F(DigestTest, ErrorAfterLastStepNamesNoStepAndKeepsAllSteps) {
  const auto optimizer = std::make_shared<MixedDeviceOptimizer>();
  Trainer one(pipeline_with_optimizer(optimizer), context(), exact());
  optimizer->hides_its_state = true;
  EXPECT_EQ(thrown_by([&] { one.run(serial_plan(), steps(8)); }),
            "Error: after the last step: no luck");
  EXPECT_EQ(one.position(), 8U);
  optimizer->hides_its_state = false;
  Trainer undisturbed(pipeline_with_optimizer(), context(), exact());
  EXPECT_EQ(one.digest(), undisturbed.run(serial_plan(), steps(8)).digest);
}

}  // namespace
}  // namespace slipstream::test
