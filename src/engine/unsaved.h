#pragma once

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
};

}  // namespace slipstream
