#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/engine.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/doctor/doctor.h"
#include "support/own_op.h"

namespace slipstream::test {

inline constexpr double kBudgetS = 1;
/// A measured rate may exceed the rate that the stated costs allow by this factor. The reason: if
/// the system suspends a thread between an event and reading its clock, one interval seems shorter
/// and another longer.
inline constexpr double kSlack = 2;

inline DoctorOptions with_budget(double budget_s) {
  DoctorOptions options;
  options.budget_s = budget_s;
  return options;
}

inline const Level& level_named(const Observations& observed, std::string_view name) {
  const auto found = std::find_if(observed.levels.begin(), observed.levels.end(),
                                  [&](const Level& level) { return level.name == name; });
  if (found == observed.levels.end()) throw Error("no level " + std::string(name));
  return *found;
}

inline const HostStepCost& step_named(const Observations& observed, std::string_view name) {
  const auto found = std::find_if(observed.host.begin(), observed.host.end(),
                                  [&](const HostStepCost& step) { return step.name == name; });
  if (found == observed.host.end()) throw Error("no host step " + std::string(name));
  return *found;
}

/// A lock that threads get in the order in which they request it.
class FairLock {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t ticket = asked_++;
    served_.wait(lock, [&] { return ticket == serving_; });
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++serving_;
    }
    served_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable served_;
  std::uint64_t asked_ = 0, serving_ = 0;
};

/// Copies images unchanged after a delay. With a lock, only one thread at a time can run it.
struct SlowOp : OwnOp {
  static constexpr std::string_view kName = "slow";

  void apply(Drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    std::unique_lock<FairLock> held;
    if (lock != nullptr) held = std::unique_lock(*lock);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    std::copy_n(in.data, in.bytes(), out.data);
  }

  double seconds = 0;
  std::shared_ptr<FairLock> lock = nullptr;
};

inline SlowOp slow_op(double seconds) {
  SlowOp op;
  op.seconds = seconds;
  return op;
}

/// Stated costs are sleeps, which take at least their time on any machine. Each test therefore
/// expects at least these costs, and at most the rates that they allow. The verdict that follows
/// from such measurements is tested on constructed ones, in diagnose_test.cpp.
class DoctorTest : public EngineTest {
 protected:
  static Plan plan(unsigned workers = 2) {
    Plan plan = build_plan(kThreeLanes, Driver::threaded, 3);
    plan.schedule.loader.num_workers = workers;
    return plan;
  }

  /// Examines with this budget, or with the proposed one if a busy machine needs more time.
  static Examination examine_fully(Trainer& trainer, const Plan& plan, DoctorOptions options) {
    const std::string words = "give a budget of ";
    for (int tries = 0; tries < 4; ++tries) {
      try {
        return examine(trainer, plan, options);
      } catch (const Refused& refused) {
        const std::string message = refused.what();
        const std::size_t at = message.find(words);
        if (at == std::string::npos) throw;
        options.budget_s = std::stod(message.substr(at + words.size()));
      }
    }
    return examine(trainer, plan, options);
  }

  static Tiny with_transform(SlowOp op) {
    Tiny tiny;
    tiny.transforms = {{"slow", std::move(op)}};
    return tiny;
  }

  static std::shared_ptr<const Dataset> make_samples(const Tiny& tiny) {
    SyntheticOptions synthetic;
    synthetic.samples = tiny.samples;
    synthetic.size = tiny.size;
    synthetic.classes = tiny.classes;
    return synthetic_segmentation(synthetic);
  }
};

}  // namespace slipstream::test
