#pragma once

#include <cstdint>

namespace slipstream {

/// Who calls the lanes. interleaved: one host thread advances whatever is ready, later lanes first.
/// threaded: one host thread a lane; host lanes overlap only then.
enum class Driver : std::uint8_t { interleaved, threaded };

}  // namespace slipstream
