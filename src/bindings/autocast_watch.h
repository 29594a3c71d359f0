#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace slipstream {

/// A call of an operation that torch.autocast runs in a lower precision, for example a convolution,
/// with the autocast state of the calling thread.
struct CastOperation {
  c10::DeviceType device = c10::kCPU;
  std::optional<at::ScalarType> autocast;  ///< the dtype; empty: autocast was off
  std::optional<at::ScalarType> inputs;    ///< dtype of all inputs that can be cast, if it is one
  bool has_gradients = false;
  auto operator<=>(const CastOperation&) const = default;
};

/// Collects the CastOperations that the current thread calls during the lifetime of this object,
/// without those of a backward pass. Each operation of the thread takes about a microsecond longer.
class CastOperations {
 public:
  CastOperations();
  ~CastOperations();
  CastOperations(const CastOperations&) = delete;
  CastOperations& operator=(const CastOperations&) = delete;

  const std::set<CastOperation>& seen() const { return *seen_; }

 private:
  std::shared_ptr<std::set<CastOperation>> seen_;
};

/// Detects a torch.autocast that the loop body enters. This is too late for stages, which already
/// ran in advance. It compares the first loop bodies of an epoch with the stages, and then costs
/// nothing. All functions are called by the loop's thread.
class AutocastWatch {
 public:
  /// Whether stages still have to be observed.
  bool is_on() const { return bodies_ < kBodies; }
  /// Begins to collect the operations that the calling thread executes for a stage.
  void begin_stage();
  /// Ends the stage. Operations under an autocast that the stage itself enters are ignored.
  void end_stage(const std::string& name);
  /// Begins to collect the operations that the calling thread executes in the loop body.
  void begin_body();
  /// Returns how the loop body differs from a stage, with the remedy, or "". It differs if it calls
  /// operations under another autocast state than a stage, and none under the same state, and the
  /// stage has inputs that the body's autocast would cast.
  std::string end_body();

 private:
  static constexpr int kBodies = 2;

  int bodies_ = 0;  ///< number of loop bodies that began
  std::map<std::string, std::set<CastOperation>> stages_;
  std::optional<CastOperations> observed_;
};

}  // namespace slipstream
