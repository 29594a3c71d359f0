#include "engine/counting.h"

#include <ctime>

#include "core/seconds_since.h"

namespace slipstream {
namespace {

double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

Counting::Counting(StepCounter* counter) : counter_(counter), cpu_s_(thread_cpu_s()) {}

Counting::~Counting() {
  if (counter_ == nullptr) return;
  ++counter_->calls;
  counter_->wall_s += seconds_since(wall_);
  counter_->cpu_s += thread_cpu_s() - cpu_s_;
}

void Counting::made(std::uint64_t bytes) {
  if (counter_ != nullptr) counter_->bytes += bytes;
}

}  // namespace slipstream
