#pragma once

#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string>
#include <vector>

namespace slipstream {

/// Checks that the module of a stage, which runs ahead of the loop body, does not change: its
/// modes, its tensors and their values, and that none of them requires gradients. Writes that
/// PyTorch does not count, for example through `.data`, are not detected. Needs the GIL.
class StageWatch {
 public:
  /// `module`: a Python module, or None. `kept`: the list for the checked objects (kept_in()).
  StageWatch(const pybind11::object& module, pybind11::handle kept);

  /// Returns what has changed since construction, as the end of a sentence, or "". Looking for
  /// replaced objects takes long in large modules, so each call checks the next few entries. A call
  /// with `is_at_end` checks all.
  std::string change(bool is_at_end);

 private:
  /// An entry of a dict of a module.
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
