#include <array>
#include <utility>

#include "doctor/pipeline_model.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::array<std::pair<Bottleneck, std::string_view>, 10> kNames = {
    {{Bottleneck::gpu, "gpu"},
     {Bottleneck::copy, "copy"},
     {Bottleneck::transforms, "transforms"},
     {Bottleneck::decode, "decode"},
     {Bottleneck::read, "read"},
     {Bottleneck::launch_overhead, "launch_overhead"},
     {Bottleneck::lock_contention, "lock_contention"},
     {Bottleneck::memory_bandwidth, "memory_bandwidth"},
     {Bottleneck::none, "none"},
     {Bottleneck::not_enough_evidence, "not_enough_evidence"}}};

}  // namespace

std::string_view to_string(Bottleneck bottleneck) {
  for (const auto& [value, name] : kNames)
    if (value == bottleneck) return name;
  throw Error("no such bottleneck");
}

Bottleneck bottleneck_named(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [value, known_name] : kNames) {
    if (known_name == name) return value;
    known.emplace_back(known_name);
  }
  throw Refused(unknown_name("bottleneck", std::string(name), known));
}

Bottleneck host_step_group(std::size_t index) {
  if (index == 0) return Bottleneck::read;
  return index == 1 ? Bottleneck::decode : Bottleneck::transforms;
}

}  // namespace slipstream
