#include "cuda/augment/functions.h"

#include <sstream>

#include "cuda/augment/special_kernel.h"
#include "slipstream/core/error.h"

namespace slipstream::augment {
namespace {

constexpr std::string_view kIncluded =
    "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n"
    "#include \"slipstream/transforms/pixel.h\"\n";

/// Returns a definition in a separate namespace, so that two functions with one name do not
/// conflict with each other or with the library.
std::string definition(const DeviceFunction& function, std::int32_t number) {
  const std::string name(function.name);
  std::ostringstream text;
  text << "namespace function_" << number << " {\nusing namespace slipstream;\n#line 1 \"" << name
       << "\"\n"
       << function.definition << "\n#line 1 \"pass.cu\"\n"
       << "static_assert(sizeof(" << name << ") == " << function.size_bytes << " && alignof("
       << name << ") == " << function.alignment << ", \"" << name
       << " has another layout on the device\");\n";
  if (!function.fixed.empty()) {
    text << "alignas(16) __device__ constexpr unsigned char kFixed[] = {";
    for (const std::byte byte : function.fixed) text << std::to_integer<int>(byte) << ",";
    text << "};\n";
  }
  text << "}\n";
  return text.str();
}

std::string call(const DeviceFunction& function, std::int32_t number) {
  const std::string space = "function_" + std::to_string(number) + "::";
  return "case " + std::to_string(number) + ": return changed(*reinterpret_cast<const " + space +
         std::string(function.name) + "*>(" +
         (function.fixed.empty() ? "drawn" : space + "kFixed") + "), pixel);\n";
}

}  // namespace

std::string functions_source(const PassProgram& pass, const std::vector<UserFunction>& functions) {
  std::string definitions;
  std::string calls;
  for (std::int32_t i = 0; i < pass.count; ++i) {
    if (pass.steps[i].kind != StepKind::function) continue;
    const std::int32_t number = pass.steps[i].function;
    const DeviceFunction& function = functions.at(static_cast<std::size_t>(number)).device;
    definitions += definition(function, number);
    calls += call(function, number);
  }
  if (calls.empty()) return {};
  return "#define SLIPSTREAM_FUNCTIONS\n" + std::string(kIncluded) + definitions +
         "namespace slipstream::augment {\ntemplate <int C>\n__device__ __forceinline__ Pixel<C> "
         "call_function(std::int32_t function, const std::byte* drawn, const Pixel<C>& pixel) {\n"
         "switch (function) {\n" +
         calls + "}\nreturn pixel;\n}\n}\n";
}

void require_compiles(const UserFunction& function, std::int32_t channels) {
  constexpr const char* kAnyArchitecture = "sm_75";
  const std::string pixel = "slipstream::Pixel<" + std::to_string(channels) + ">";
  const std::string source =
      std::string(kIncluded) + definition(function.device, 0) +
      "__global__ void probe(const function_0::" + std::string(function.device.name) + "* with, " +
      pixel + "* at) { *at = slipstream::changed(*with, *at); }\n";
  try {
    compiled(source, kAnyArchitecture);
  } catch (const Error& error) {
    throw Error("transform '" + function.named.name + "': the pixel function '" +
                std::string(function.device.name) +
                "' does not compile for the device (pixel_op.h says what its text may use): " +
                error.what());
  }
}

}  // namespace slipstream::augment
