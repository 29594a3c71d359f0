#include <cstdlib>

#include "core/json_fields.h"
#include "slipstream/core/error.h"

/// Both readers of JSON return or refuse, whatever the bytes, and what they return can be copied,
/// printed and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const json::Json lenient = json::parsed_or_discarded(text);
  const json::Json copy = lenient;
  static_cast<void>(copy.dump(-1, ' ', false, json::Json::error_handler_t::replace));
  try {
    const json::Json strict = json::parsed(text, "this text");
    if (strict != lenient || json::parsed(strict.dump(), "its text") != strict) std::abort();
  } catch (const Refused&) {
    return 0;
  }
  return 0;
}
