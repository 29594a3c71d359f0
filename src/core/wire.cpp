#include "slipstream/core/wire.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

// In the order of the enumerators, because to_string() uses the enumerator as index.
constexpr std::array<std::pair<Wire, std::string_view>, 8> kNames = {{
    {Wire::plain, "plain"},
    {Wire::smallest, "smallest"},
    {Wire::bits, "bits"},
    {Wire::one_hot, "one_hot"},
    {Wire::bf16, "bf16"},
    {Wire::fp16, "fp16"},
    {Wire::jpeg, "jpeg"},
    {Wire::host, "host"},
}};

}  // namespace

bool has_format(const WireFormats& formats, Wire wire) {
  return std::any_of(formats.begin(), formats.end(),
                     [&](const auto& each) { return each.second == wire; });
}

std::string_view to_string(Wire wire) { return kNames.at(static_cast<std::size_t>(wire)).second; }

Wire wire_named(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [wire, known_name] : kNames) {
    if (known_name == name) return wire;
    known.emplace_back(known_name);
  }
  throw Refused(unknown_name("wire format", name, known));
}

}  // namespace slipstream
