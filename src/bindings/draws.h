#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/draw_check.h"

namespace slipstream {

/// A forked process would wait for ever for what another thread was within as it was forked, and
/// every worker process needs two such things of PyTorch: its default generator of the CPU, within
/// which no thread is at a fork from now on, and its choice of kernels for this processor, which it
/// makes once, and here. Call once.
void prepare_for_forks();

/// The other threads of Python that may draw random numbers, and the processor time that they had.
class OtherThreads {
 public:
  /// Notes their times. Needs Python's lock, as all below.
  void begin();
  /// Whether one of them has run since begin().
  bool have_run();

 private:
  struct Thread {
    int id;
    std::int64_t time_ns;
  };

  bool have_changed();
  static std::int64_t time_ns(int thread);

  std::vector<const void*> known_;  ///< threading.Thread objects, to be compared alone
  std::vector<Thread> threads_;
};

/// Where a plain loop does what a lane does to a batch: batch after batch, lane after lane.
struct LoopPosition {
  std::uint64_t batch = 0;
  std::size_t lane = 0;
  auto operator<=>(const LoopPosition&) const = default;
};

/// Sees whether parts of a loop draw random numbers in another order than in a plain loop, from
/// the default generators of PyTorch, NumPy and Python's `random`. It compares a few words of each
/// generator's state before and after each part, which takes less than a microsecond. A change
/// while another thread of Python ran may be that thread's, so it is not counted.
class DrawOrder {
 public:
  static constexpr const char* kLoader = "the loader";

  explicit DrawOrder(c10::Device device);
  ~DrawOrder();
  DrawOrder(const DrawOrder&) = delete;
  DrawOrder& operator=(const DrawOrder&) = delete;

  /// From here on draws are those of one part of the loop. Needs Python's lock, as end() does.
  void begin();
  /// Throws LoopCheckFailed, with the remedy, if `who` has drawn since begin() from a generator
  /// from which another part has drawn before that a plain loop would run later.
  void end(const std::string& who, LoopPosition position);

 private:
  class Generator;
  class TorchGenerator;
  class NumpyGenerator;
  class PythonGenerator;

  std::vector<std::unique_ptr<Generator>> generators_;
  OtherThreads others_;
};

/// PyTorch's default generators hold this seed and number while it lives, and then go on as before.
class KeyedDraws {
 public:
  KeyedDraws(c10::Device device, std::uint64_t seed, std::uint64_t number);
  ~KeyedDraws();
  KeyedDraws(const KeyedDraws&) = delete;
  KeyedDraws& operator=(const KeyedDraws&) = delete;

 private:
  GeneratorStates before_;
};

}  // namespace slipstream
