#include <charconv>

#include "core/text.h"
#include "slipstream/core/cpu.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

[[noreturn]] void refuse_text(std::string_view text, const std::string& why) {
  throw Refused("'" + std::string(text) + "' is not a list of CPUs: " + why +
                "; write numbers and ranges, such as 0-3,8");
}

unsigned parse_cpu_number(std::string_view part, std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (part.empty() || error == std::errc::invalid_argument || end != part.data() + part.size()) {
    refuse_text(text, "'" + std::string(part) + "' is not a number");
  }
  if (error != std::errc() || number >= kMaxCpus) {
    refuse_text(text, std::string(part) + " is over " + std::to_string(kMaxCpus - 1));
  }
  return number;
}

}  // namespace

CpuList parse_cpu_list(std::string_view text) {
  text = without_blanks(text);
  std::vector<bool> is_named(kMaxCpus);
  std::string_view rest = text;
  for (bool is_last = false; !is_last;) {
    const std::size_t comma = rest.find(',');
    is_last = comma == std::string_view::npos;
    const std::string_view part = rest.substr(0, comma);
    if (!is_last) rest.remove_prefix(comma + 1);
    const std::size_t dash = part.find('-');
    const unsigned first = parse_cpu_number(part.substr(0, dash), text);
    const unsigned last =
        dash == std::string_view::npos ? first : parse_cpu_number(part.substr(dash + 1), text);
    if (last < first) refuse_text(text, std::string(part) + " has its larger number first");
    for (unsigned cpu = first; cpu <= last; ++cpu) is_named[cpu] = true;
  }
  CpuList cpus;
  for (unsigned cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (is_named[cpu]) cpus.push_back(cpu);
  }
  return cpus;
}

std::string format_cpu_list(std::span<const unsigned> cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size();) {
    std::size_t last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (first > 0 ? "," : "") + std::to_string(cpus[first]);
    if (last > first) text += "-" + std::to_string(cpus[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace slipstream
