#include <array>
#include <charconv>
#include <fstream>

#include "slipstream/core/cpu.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

/// Returns the first line, or "" if there is none.
std::string read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

CpuList list_in(const fs::path& path) {
  try {
    return parse_cpu_list(read_line(path));
  } catch (const Refused&) {
    return {};
  }
}

std::optional<unsigned> number_in(const fs::path& path) {
  const std::string line = read_line(path);
  unsigned number = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc() || end != line.data() + line.size()) return std::nullopt;
  return number;
}

std::string padded_hex(unsigned number, std::size_t digits) {
  constexpr int kHex = 16;
  std::array<char, 2 * sizeof number> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), number, kHex);
  const auto length = static_cast<std::size_t>(result.ptr - text.data());
  return std::string(digits > length ? digits - length : 0, '0') + std::string(text.data(), length);
}

/// Converts a PCI address to sysfs's spelling, with padded lower-case digits. Returns "" if it is
/// not a PCI address.
std::string sysfs_address(std::string_view address) {
  struct Part {
    char separator;  ///< the character after the part
    std::size_t digits;
  };
  constexpr std::array<Part, 4> kParts = {{{':', 4}, {':', 2}, {'.', 2}, {'\0', 1}}};
  constexpr int kHex = 16;
  std::string result;
  for (const auto& [separator, digits] : kParts) {
    unsigned number = 0;
    const char* const last = address.data() + address.size();
    const auto [end, error] = std::from_chars(address.data(), last, number, kHex);
    if (error != std::errc()) return "";
    address.remove_prefix(static_cast<std::size_t>(end - address.data()));
    result += padded_hex(number, digits);
    if (separator == '\0') break;
    if (!address.starts_with(separator)) return "";
    address.remove_prefix(1);
    result += separator;
  }
  return address.empty() ? result : "";
}

}  // namespace

CpuList cpus_of_node(unsigned node, const fs::path& sysfs) {
  return list_in(sysfs / "devices/system/node" / ("node" + std::to_string(node)) / "cpulist");
}

PciLocation locate_pci_device(std::string_view address, const fs::path& sysfs) {
  const std::string name = sysfs_address(address);
  if (name.empty()) return {};
  const fs::path device = sysfs / "bus/pci/devices" / name;
  return {number_in(device / "numa_node"), list_in(device / "local_cpulist")};
}

}  // namespace slipstream
