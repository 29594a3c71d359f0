#include "data/libarchive_reader.h"
#include "slipstream/error.h"

namespace slipstream {

std::unique_ptr<ArchiveReader> read_by_libarchive(const ByteSource&, Data) {
  throw Error(
      "it is a cpio or zip archive, and this program was built without libarchive: install "
      "libarchive-dev and build again, or pack the files as .tar");
}

}  // namespace slipstream
