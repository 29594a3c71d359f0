#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/patience.h"
#include "slipstream/datasets/dataset.h"

namespace slipstream::test {

/// Delays every sample of `inner` except the first `quick` ones.
class SlowSet final : public Dataset {
 public:
  SlowSet(std::shared_ptr<const Dataset> inner, double seconds, std::uint64_t quick = 0)
      : inner_(std::move(inner)), seconds_(seconds), quick_(quick) {}

  std::size_t size() const override { return inner_->size(); }
  std::vector<FieldSpec> fields() const override { return inner_->fields(); }
  void read(std::size_t index, Sample& out) const override {
    inner_->read(index, out);
    if (read_.value() >= quick_) std::this_thread::sleep_for(seconds_);
    read_.add();
  }
  Counter& samples_read() const { return read_; }

 private:
  std::shared_ptr<const Dataset> inner_;
  std::chrono::duration<double> seconds_;
  std::uint64_t quick_;
  mutable Counter read_;
};

}  // namespace slipstream::test
