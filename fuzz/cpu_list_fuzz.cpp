#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "slipstream/core/cpu.h"
#include "slipstream/core/error.h"

/// Text is refused, or names CPUs that grow, stay below the limit, and are written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace slipstream;
  CpuList cpus;
  try {
    cpus = parse_cpu_list(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Refused&) {
    return 0;
  }
  if (cpus.empty() || cpus.back() >= kMaxCpus) std::abort();
  for (std::size_t i = 1; i < cpus.size(); ++i) {
    if (cpus[i] <= cpus[i - 1]) std::abort();
  }
  if (parse_cpu_list(format_cpu_list(cpus)) != cpus) std::abort();
  return 0;
}
