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

/// An operation that torch.autocast runs in a lower precision, such as a convolution, as the
/// thread that called it saw autocast.
struct CastOperation {
  c10::DeviceType device = c10::kCPU;
  std::optional<at::ScalarType> autocast;  ///< the dtype; no value: autocast was off
  bool has_gradients = false;
  auto operator<=>(const CastOperation&) const = default;
};

/// Collects the CastOperations that the thread which made it calls while it lives, those of a
/// backward pass left out. Each operation of that thread takes about a microsecond longer.
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

/// Finds a torch.autocast that is entered in a loop's body, where it comes too late for the stages
/// that ran before. It compares the first bodies of a pass with the stages, and then costs nothing.
class AutocastWatch {
 public:
  /// Whether stages are still to be observed.
  bool is_on() const { return bodies_ < kBodies; }
  /// Operations of the calling thread until end_stage() belong to a stage.
  void begin_stage();
  /// Operations under an autocast that the stage enters itself do not count.
  void end_stage(const std::string& name);
  /// Operations of the calling thread until end_body() belong to the loop's body.
  void begin_body();
  /// What differs between the body and a stage, with the remedy; "" where nothing does. The body
  /// differs where it calls operations under another autocast than a stage, and none under the
  /// same.
  std::string end_body();

 private:
  static constexpr int kBodies = 2;

  int bodies_ = 0;  ///< that began
  std::map<std::string, std::set<CastOperation>> stages_;
  std::optional<CastOperations> observed_;
};

}  // namespace slipstream
