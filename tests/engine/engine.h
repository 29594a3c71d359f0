#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/run_hooks.h"
#include "engine/step_costs.h"

namespace slipstream::test {

/// "cpu" or "cuda": the same tests are linked into one program for each device.
extern const char* const kDevice;

/// Parameters of the small pipelines in these tests. Their device steps are copy, encode, each of
/// `extra`, and train.
struct Tiny {
  std::size_t batch_size = 4;
  std::int64_t size = 8;         ///< height and width; even
  std::int64_t stored_size = 0;  ///< side of synthetic samples before "resize"; 0: `size`
  std::int64_t classes = 5;
  std::int64_t channels = 6;
  std::size_t samples = 64;
  std::uint64_t seed = 1;
  std::string optimizer = "momentum";  ///< or "sgd", "adamw"
  double lr = 0.05;
  bool noisy = false;  ///< adds dropout and batch normalization to the trained module
  std::shared_ptr<const Dataset> dataset = nullptr;  ///< instead of synthetic samples
  std::vector<NamedOp> transforms = {};              ///< before "resize"
  std::vector<std::pair<std::string, std::function<void(Batch&)>>> extra = {};
  std::function<at::Tensor(const at::Tensor&, const Batch&)> loss = nullptr;  ///< instead of ours
  StepCosts costs = {};
  OnBadSample on_bad_sample = OnBadSample::stop;
};

Pipeline tiny_pipeline(const Tiny& tiny);

/// Deterministic numerics.
Plan::Numerics exact(Precision precision = Precision::fp32);

/// Names of steps by lane, for example {{"copy"}, {"encode", "train"}}.
using Lanes = std::vector<std::vector<std::string>>;
inline const Lanes kThreeLanes = {{"copy"}, {"encode"}, {"train"}};
Plan build_plan(const Lanes& lanes, Driver driver, std::size_t depth,
                const Plan::Numerics& numerics = exact());
/// A plan with one lane and one slot. `extra` names further stages, between encode and train.
Plan serial_plan(const std::vector<std::string>& extra = {});
std::string describe(const Plan& plan);

RunOptions steps(std::uint64_t n);
/// Delays every lane and every branch at random by up to `microseconds`.
RunHooks delayed(double microseconds, std::uint64_t seed);

/// Returns true if the tensors have the same shape and bits, wherever their memory is.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

/// Skips tests if kDevice is a GPU and there is none, or fails them with SLIPSTREAM_REQUIRE_GPU=1.
class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override;

  static bool on_gpu();
  static DeviceKind kind() { return on_gpu() ? DeviceKind::cuda : DeviceKind::cpu; }
  /// Returns the one context that all tests of the program share, as in a user's process.
  static Context& context();
  std::unique_ptr<Trainer> trainer(const Tiny& tiny, const Plan::Numerics& numerics = exact());
  /// Runs a fresh trainer once and returns the result.
  RunResult fresh_run(const Tiny& tiny, const Plan& plan, const RunOptions& options,
                      const RunHooks& hooks = {});
};

}  // namespace slipstream::test
