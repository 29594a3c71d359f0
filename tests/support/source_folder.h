#pragma once

#include <filesystem>

namespace slipstream {

/// The root of the project's sources. A function, because a path in the sources or the options of
/// every test would keep ccache from finding in one clone what another one has compiled.
std::filesystem::path source_folder();

/// Where files are that other projects' programs made, for comparison.
inline std::filesystem::path golden_folder() { return source_folder() / "tests" / "golden"; }

}  // namespace slipstream
