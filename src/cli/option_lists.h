#pragma once

#include "slipstream/cli/options.h"

namespace slipstream {

// Single options of the predefined lists, for workloads that use only some of them.
Option classes_option();
Option image_size_option(const std::string& help);
Option transforms_option();

}  // namespace slipstream
