#include <array>
#include <utility>

#include "doctor/pipeline_model.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::array<std::pair<Culprit, std::string_view>, 10> kNames = {
    {{Culprit::gpu, "gpu"},
     {Culprit::copy, "copy"},
     {Culprit::transforms, "transforms"},
     {Culprit::decode, "decode"},
     {Culprit::raw_reading, "raw_reading"},
     {Culprit::launch, "launch"},
     {Culprit::lock, "lock"},
     {Culprit::memory_bandwidth, "memory_bandwidth"},
     {Culprit::none, "none"},
     {Culprit::not_enough_evidence, "not_enough_evidence"}}};

}  // namespace

std::string_view to_string(Culprit culprit) {
  for (const auto& [value, name] : kNames)
    if (value == culprit) return name;
  throw Error("no such culprit");
}

Culprit culprit_named(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [value, known_name] : kNames) {
    if (known_name == name) return value;
    known.emplace_back(known_name);
  }
  throw Refused(unknown_name("culprit", std::string(name), known));
}

Culprit host_step_group(std::size_t index) {
  if (index == 0) return Culprit::raw_reading;
  return index == 1 ? Culprit::decode : Culprit::transforms;
}

}  // namespace slipstream
