#pragma once

#include "slipstream/core/error.h"

namespace slipstream {

/// What an operation throws when one sample does not fit it, such as an image smaller than a crop:
/// the sample is bad, not the operation, so the loader may skip it (OnBadSample). Whether a sample
/// fits must not depend on what is drawn: once found bad, it is left out for the rest of the run.
class UnfitSample : public Error {
 public:
  using Error::Error;
};

}  // namespace slipstream
