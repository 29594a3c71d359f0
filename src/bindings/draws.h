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

/// Makes fork() safe for worker processes. A mutex that another thread holds during fork() stays
/// locked in the child. Two mutexes of PyTorch matter: that of the default CPU generator, which a
/// fork handler now acquires before each fork, and that of the CPU kernel selection, which this
/// function triggers in advance. Call it once.
void prepare_for_forks();

/// The CPU times of Python's other threads, which may also use the random generators.
class OtherThreads {
 public:
  /// Stores the threads' CPU times. Needs the GIL, as do all functions of this class.
  void begin();
  /// Whether another thread has run since begin().
  bool have_run();

 private:
  struct Thread {
    int id;
    std::int64_t time_ns;
  };

  bool have_changed();
  static std::int64_t time_ns(int thread);

  std::vector<const void*> known_;  ///< addresses of threading.Thread objects, only for comparison
  std::vector<Thread> threads_;
};

/// Position of a lane's work in the order of a plain loop: by batch, then by lane.
struct LoopPosition {
  std::uint64_t batch = 0;
  std::size_t lane = 0;
  auto operator<=>(const LoopPosition&) const = default;
};

/// Detects whether parts of a loop use the default generators of PyTorch, NumPy or Python's
/// `random` in another order than a plain loop. It compares a few words of each generator's state
/// before and after each part, which takes less than a microsecond. If another thread of Python ran
/// in between, a change is ignored, because that thread may be its cause.
class DrawOrder {
 public:
  static constexpr const char* kLoader = "the loader";

  explicit DrawOrder(c10::Device device);
  ~DrawOrder();
  DrawOrder(const DrawOrder&) = delete;
  DrawOrder& operator=(const DrawOrder&) = delete;

  /// Begins a part of the loop. Needs the GIL, as does end().
  void begin();
  /// Ends the part `who`. Throws LoopCheckFailed, with the remedy, if it used a generator that
  /// another part, which a plain loop would run later, has already used.
  void end(const std::string& who, LoopPosition position);

 private:
  class Generator;
  class TorchGenerator;
  class NumpyGenerator;
  class PythonGenerator;

  std::vector<std::unique_ptr<Generator>> generators_;
  OtherThreads others_;
};

/// Seeds PyTorch's default generators with a seed and a number during its lifetime, and then
/// restores their states.
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
