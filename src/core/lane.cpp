#include "slipstream/core/lane.h"

#include <chrono>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

// Host work is finished when it is recorded, so a host mark is only a time.
struct HostMark final : Mark {
  bool reached() const override { return true; }
  void synchronize() const override {}
  double seconds_after(const Mark& earlier) const override {
    const auto* other = dynamic_cast<const HostMark*>(&earlier);
    ensure(other != nullptr, "marks of one device are compared");
    return std::chrono::duration<double>(time - other->time).count();
  }

  Clock::time_point time{};
};

}  // namespace

std::unique_ptr<Mark> HostLane::make_mark() { return std::make_unique<HostMark>(); }

void HostLane::record(Mark& mark) {
  auto* own = dynamic_cast<HostMark*>(&mark);
  ensure(own != nullptr, "a lane records its own marks");
  own->time = Clock::now();
}

void HostLane::wait(const Mark& mark) { mark.synchronize(); }

}  // namespace slipstream
