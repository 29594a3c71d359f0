#pragma once

#include <string>
#include <vector>

namespace slipstream {

/// What to say of an option of the command line that is none of `known`, each as "--name": which of
/// them, or which key of a plan, is what PyTorch or torchvision calls so, or else the one of the
/// nearest name. `help`: the command that shows all.
std::string unknown_option(const std::string& option, const std::vector<std::string>& known,
                           const std::string& help);

}  // namespace slipstream
