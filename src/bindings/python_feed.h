#pragma once

#include <c10/core/Device.h>

#include "bindings/feed.h"

namespace slipstream {

/// Batches of a Python iterator. A Python function returns whether the next one is ready; None
/// means that it always is. Both objects are in a Python list (kept_in()).
class PythonFeed final : public Feed {
 public:
  PythonFeed(pybind11::handle batches, pybind11::handle ready, c10::Device device);
  ~PythonFeed() override;

  bool ready() override;
  bool take() override;
  pybind11::object moved(Lane& lane) override;
  bool is_on_device() const override { return is_on_device_; }

 private:
  pybind11::handle batches_, ready_;
  pybind11::object item_;
  c10::Device device_;
  bool is_on_device_ = false;
};

}  // namespace slipstream
