#include "engine/counting.h"

#include "core/process_times.h"
#include "core/seconds_since.h"

namespace slipstream {
Counting::Counting(StepCounter* counter)
    : counter_(counter), cpu_s_(counter != nullptr ? thread_cpu_s() : 0) {}

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
