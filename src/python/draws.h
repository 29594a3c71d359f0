#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run/draw_check.h"

namespace slipstream {

/// A forked process would wait for ever for what another thread was within as it was forked, and
/// every worker process needs two such things of PyTorch: its default generator of the CPU, within
/// which no thread is at a fork from now on, and its choice of kernels for this processor, which it
/// makes once, and here. Call once.
void prepare_for_forks();

/// Finds out who draws random numbers from PyTorch's default generators in a loop. Two who do would
/// draw in another order than in a plain loop. Looks at some batches alone: a generator's state is
/// large.
class DrawOrder {
 public:
  static constexpr const char* kLoader = "the loader";

  explicit DrawOrder(c10::Device device);

  /// Whether it looks at this batch.
  static bool looks_at(std::uint64_t batch) { return batch < 4 || batch % 64 == 0; }
  /// From here on draws are those of `who`.
  void begin();
  /// Throws Error, with the remedy, where `who` has drawn since begin() from a generator that
  /// another one draws from.
  void end(const std::string& who);

 private:
  struct Watched {
    c10::Device device;
    at::Tensor before;
    std::string drawer;  ///< who draws from it; "": nobody so far
  };

  static std::string conflict(const Watched& generator, const std::string& who);

  std::vector<Watched> generators_;
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
