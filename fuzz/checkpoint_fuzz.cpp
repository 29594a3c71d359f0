#include <cstdlib>

#include "engine/checkpoint_record.h"

/// A record is refused, or comes back from its JSON as it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  CheckpointRecord record;
  try {
    record = parse_checkpoint_record({reinterpret_cast<const char*>(data), size});
  } catch (const Refused&) {
    return 0;
  }
  if (!(parse_checkpoint_record(to_json_text(record)) == record)) std::abort();
  return 0;
}
