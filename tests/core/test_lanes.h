#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/fake_lane.h"
#include "core/schedule.h"
#include "slipstream/core/lane.h"

namespace slipstream::test {

/// host: the calling thread executes work at once. fake: work is executed later, as on a CUDA
/// stream.
enum class Kind { host, fake };

/// Several lanes of one kind.
class TestLanes {
 public:
  TestLanes(Kind kind, std::size_t count) {
    for (std::size_t lane = 0; lane < count; ++lane) {
      const std::string name = "lane" + std::to_string(lane);
      if (kind == Kind::host) {
        lanes_.push_back(std::make_unique<HostLane>(name));
        fakes_.push_back(nullptr);
      } else {
        auto fake = std::make_unique<FakeLane>(name);
        fakes_.push_back(fake.get());
        lanes_.push_back(std::move(fake));
      }
    }
  }

  std::vector<Lane*> all() const {
    std::vector<Lane*> pointers;
    for (const auto& lane : lanes_) pointers.push_back(lane.get());
    return pointers;
  }

  FakeLane* fake(std::size_t lane) const { return fakes_[lane]; }

  void enqueue(std::size_t lane, std::function<void()> work) const {
    if (fakes_[lane] != nullptr) return fakes_[lane]->enqueue(std::move(work));
    work();
  }

 private:
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<FakeLane*> fakes_;
};

/// Work whose functions a test can replace.
struct HookedWork final : Work {
  std::function<bool(std::uint64_t batch)> on_ready;
  std::function<void(std::uint64_t batch)> on_await;
  std::function<void()> on_poll;
  std::function<void(std::size_t lane, std::size_t slot)> on_drop;
  std::function<void(std::size_t lane, std::uint64_t batch, std::size_t slot)> on_run;
  std::function<void(std::uint64_t batch, std::span<const Mark* const> begin,
                     std::span<const Mark* const> end)>
      on_completed;

  bool input_ready(std::uint64_t batch) override { return !on_ready || on_ready(batch); }
  void await_input(std::uint64_t batch) override {
    if (on_await) on_await(batch);
  }
  void poll() override {
    if (on_poll) on_poll();
  }
  void drop(std::size_t lane, std::size_t slot) override {
    if (on_drop) on_drop(lane, slot);
  }
  void run(std::size_t lane, std::uint64_t batch, std::size_t slot) override {
    if (on_run) on_run(lane, batch, slot);
  }
  void completed(std::uint64_t batch, std::span<const Mark* const> begin,
                 std::span<const Mark* const> end) override {
    if (on_completed) on_completed(batch, begin, end);
  }
};

inline std::string driver_name(Driver driver) {
  return driver == Driver::threaded ? "threaded" : "interleaved";
}

/// A combination of parameters with which the schedule's tests are repeated.
struct Combo {
  Kind kind;
  Driver driver;
  std::size_t lanes, depth;

  std::string name() const {
    return (kind == Kind::host ? "host_" : "fake_") + driver_name(driver) + "_" +
           std::to_string(lanes) + "_lanes_depth_" + std::to_string(depth);
  }
};

inline std::ostream& operator<<(std::ostream& out, const Combo& combo) {
  return out << combo.name();
}

/// The elements of `all` for which `is_wanted` returns true.
template <typename IsWanted>
std::vector<Combo> only(std::vector<Combo> all, const IsWanted& is_wanted) {
  std::erase_if(all, [&](const Combo& each) { return !is_wanted(each); });
  return all;
}

/// True for lanes that execute their work later, as a CUDA stream does.
inline bool is_fake(const Combo& combo) { return combo.kind == Kind::fake; }

/// Names the tests of a suite that has combinations as parameters.
inline constexpr auto kComboName = [](const auto& test) { return test.param.name(); };

/// `spare`: the difference between depth and number of lanes.
inline std::vector<Combo> combos(const std::vector<std::size_t>& lane_counts = {1, 2, 3, 4},
                                 const std::vector<std::size_t>& spare = {0, 2}) {
  std::vector<Combo> all;
  for (Kind kind : {Kind::host, Kind::fake})
    for (Driver driver : {Driver::interleaved, Driver::threaded})
      for (std::size_t lanes : lane_counts)
        for (std::size_t more : spare) all.push_back({kind, driver, lanes, lanes + more});
  return all;
}

}  // namespace slipstream::test
