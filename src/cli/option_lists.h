#pragma once

#include "slipstream/cli/options.h"

namespace slipstream {

// Of the ready lists, for workloads that take some of them alone.
Option classes_option();
Option image_size_option(const std::string& help);
Option transforms_option();

}  // namespace slipstream
