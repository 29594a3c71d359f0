#pragma once

#include <cstdint>
#include <functional>

namespace slipstream {

/// A trained module with values that no State contains, such as buffers that Python registered as
/// not persistent.
class UnsavedState {
 public:
  virtual ~UnsavedState() = default;
  /// Returns a function that restores these values as they are now. Both this call and the function
  /// copy on the current stream.
  virtual std::function<void()> keep_unsaved() const = 0;
  /// Returns a number that changes if modes, such as training or evaluation, or the tensors of the
  /// module change in a way that its C++ interface does not show.
  virtual std::uint64_t digest_of_form() const = 0;
};

}  // namespace slipstream
