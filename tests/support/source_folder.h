#pragma once

#include <filesystem>

namespace slipstream {

/// Returns the root of the project's sources. It is found at run time, because a path in the
/// sources or compiler options of every test would keep ccache from sharing results between clones.
std::filesystem::path source_folder();

/// Returns the folder of files that other projects' programs created, with which results are
/// compared.
inline std::filesystem::path golden_folder() { return source_folder() / "tests" / "golden"; }

}  // namespace slipstream
