#include <cstdint>
#include <cstdlib>

#include "slipstream/engine/plan.h"

/// parse_plan refuses or returns, whatever the bytes, and what it returns survives to_json_text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  Plan plan;
  try {
    plan = parse_plan({reinterpret_cast<const char*>(data), size});
  } catch (const Refused&) {
    return 0;
  }
  if (parse_plan(to_json_text(plan)) != plan) std::abort();
  static_cast<void>(find_problems(plan, {"copy", "encode", "decode"}, DeviceKind::cpu));
  return 0;
}
