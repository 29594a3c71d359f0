#include "core/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <utility>

#include "core/figures.h"
#include "core/number_text.h"
#include "core/revision.h"
#include "slipstream/core/cpu.h"

namespace slipstream {
namespace {

constexpr const char* kNotKnown = "unknown";

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return kNotKnown;
}

std::string kernel() {
  utsname names{};
  if (uname(&names) != 0) return kNotKnown;
  return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

/// Parses a limit of the control group, which is "max" or a number.
double group_limit(const std::string& line) {
  char* end = nullptr;
  const double limit = std::strtod(line.c_str(), &end);
  return end == line.c_str() || limit <= 0 ? HUGE_VAL : limit;
}

std::uint64_t usable_memory_bytes() {
  const double machine = static_cast<double>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
                         static_cast<double>(sysconf(_SC_PAGESIZE));
  const double group = group_limit(first_line("/sys/fs/cgroup/memory.max"));
  return static_cast<std::uint64_t>(std::min(machine, group));
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#else
  return kNotKnown;
#endif
}

constexpr bool kOptimized =
#if defined(__OPTIMIZE__)
    true;
#else
    false;
#endif

constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    true;
#else
    false;
#endif
#else
        false;
#endif

std::vector<std::string> warnings(unsigned cores) {
  std::vector<std::string> found;
  if (!kOptimized) found.emplace_back("built without optimization: timings are not meaningful");
  if (kSanitized) found.emplace_back("built with a sanitizer: timings are not meaningful");
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty() && governor != "performance")
    found.push_back("CPU frequency scaling is on (governor " + governor + "): times are noisy");
  double load = 0;
  const bool known = getloadavg(&load, 1) == 1;
  const std::string busy = known ? busy_warning(load, cores) : "";
  if (!busy.empty()) found.push_back(busy);
  return found;
}

}  // namespace

std::string busy_warning(double load, unsigned cores) {
  if (load <= cores) return "";
  return "the machine was busy (load " + fixed(load, 1) + " on " + format_count(cores, "core") +
         "): times are noisy";
}

Environment probe_environment(std::string libtorch, std::optional<GpuInfo> gpu) {
  Environment environment;
  environment.time = utc_text(std::time(nullptr));
  environment.slipstream = slipstream_version();
  environment.revision = slipstream_revision();
  environment.compiler = compiler();
  environment.libtorch = std::move(libtorch);
  environment.os = kernel();
  environment.cpu = cpu_model();
  environment.logical_cores = usable_cores();
  environment.memory_bytes = usable_memory_bytes();
  environment.gpu = std::move(gpu);
  environment.warnings = warnings(environment.logical_cores);
  return environment;
}

std::string utc_text(std::time_t time) {
  std::tm utc{};
  gmtime_r(&time, &utc);
  std::array<char, 32> buffer;
  const std::size_t length =
      std::strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {buffer.data(), length};
}

std::string_view slipstream_version() { return kVersion; }
std::string_view slipstream_revision() { return kRevision; }

}  // namespace slipstream
