#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

/// Sees whether the module of a stage, which runs ahead of a loop's body, stays as it was: its
/// modes, the tensors that it has, their values, and that none of them is trained. Values that
/// PyTorch does not see written, as through `.data`, are not seen. Needs Python's lock.
class StageWatch {
 public:
  /// `module`: of Python, or None. What is looked at is in the list `kept` (kept_in()).
  StageWatch(const pybind11::object& module, pybind11::handle kept);

  /// What has changed since then, as a sentence's end; "" where nothing has. Looks for what was
  /// replaced in a few of many places, each time in the next ones, and in all at the end.
  std::string change(bool is_at_end);

 private:
  /// What a dict of a module has under a name.
  struct Entry {
    pybind11::handle names, name, value;
  };
  struct Written {
    at::Tensor tensor;
    std::uint32_t version;
  };

  void watch_modes(pybind11::handle module, pybind11::handle kept);
  void watch_tables(pybind11::handle module, pybind11::handle kept);

  std::vector<Entry> modes_, members_;
  std::vector<Written> tensors_;
  std::size_t next_member_ = 0;
};

}  // namespace slipstream
