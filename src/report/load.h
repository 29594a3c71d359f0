#pragma once

#include <string>

namespace slipstream {

/// What a load (tasks that run or want to) above the number of cores means; "" for a lower one.
std::string busy_warning(double load, unsigned cores);

}  // namespace slipstream
