#pragma once

#include "transforms/mix.h"

namespace slipstream::test {

/// Runs mix() for a batch in host memory, on the device of the test program that links it.
void mix_on_tested_device(const MixForm& form, const MixBatch& batch);

/// Skips the test, or fails it, if that device does not exist.
void require_mixer();

}  // namespace slipstream::test
