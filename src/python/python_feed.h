#pragma once

#include <c10/core/Device.h>

#include "python/feed.h"

namespace slipstream {

/// Batches that Python makes. `source` has ready(), whether take() would return without waiting,
/// and take(), the next batch, which raises StopIteration where there is none. It is in a list of
/// Python's (kept_in()).
class PythonFeed final : public Feed {
 public:
  PythonFeed(pybind11::handle source, c10::Device device);
  ~PythonFeed() override;

  bool ready() override;
  bool take() override;
  pybind11::object moved(Lane& lane) override;
  bool is_on_device() const override { return is_on_device_; }

 private:
  pybind11::handle source_;
  pybind11::object item_;
  c10::Device device_;
  bool is_on_device_ = false;
};

}  // namespace slipstream
