#include "support/source_folder.h"

namespace slipstream {

std::filesystem::path source_folder() { return SLIPSTREAM_SOURCE_FOLDER; }

}  // namespace slipstream
