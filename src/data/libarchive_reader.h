#pragma once

#include <memory>

#include "data/archive.h"

namespace slipstream {

enum class Data { find, skip };

/// Cpio and zip. ArchiveMember::header is the member's number. With Data::find all bytes are read:
/// what libarchive gives of a member is compared with what stands in the archive, so that whatever
/// its version does, `is_plain` holds. Throws Error where the program was built without libarchive.
std::unique_ptr<ArchiveReader> read_by_libarchive(const ByteSource& source, Data data = Data::find);

}  // namespace slipstream
