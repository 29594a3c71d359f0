#pragma once

#include <functional>

namespace slipstream {

/// A trained module with values that no State holds, such as buffers of Python that are not
/// persistent.
class UnsavedState {
 public:
  virtual ~UnsavedState() = default;
  /// What puts them back as they are now. Both copy on the current stream.
  virtual std::function<void()> keep_unsaved() const = 0;
};

}  // namespace slipstream
