#include "slipstream/core/wire.h"

#include <algorithm>

#include "core/enum_names.h"

namespace slipstream {
namespace {

constexpr EnumNames<Wire, 8> kNames = {{
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

std::string_view to_string(Wire wire) { return enum_name(kNames, wire); }

Wire wire_named(const std::string& name) { return enum_named(kNames, "wire format", name); }

}  // namespace slipstream
