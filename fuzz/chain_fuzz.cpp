#include <cstdint>
#include <cstdlib>

#include "slipstream/core/error.h"
#include "slipstream/transforms/chain.h"

/// parse_chain refuses or returns, whatever the bytes, and what it returns survives to_json_text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  std::vector<NamedOp> chain;
  try {
    chain = parse_chain({reinterpret_cast<const char*>(data), size});
  } catch (const Refused&) {
    return 0;
  }
  const std::string written = to_json_text(chain);
  if (to_json_text(parse_chain(written)) != written) std::abort();
  return 0;
}
