#include "core/enum_names.h"
#include "doctor/pipeline_model.h"

namespace slipstream {
namespace {

constexpr EnumNames<Bottleneck, 10> kNames = {
    {{Bottleneck::device, "device"},
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

std::string_view to_string(Bottleneck bottleneck) { return enum_name(kNames, bottleneck); }

Bottleneck bottleneck_named(std::string_view name) {
  return enum_named(kNames, "bottleneck", name);
}

Bottleneck host_step_group(std::size_t index) {
  if (index == 0) return Bottleneck::read;
  return index == 1 ? Bottleneck::decode : Bottleneck::transforms;
}

}  // namespace slipstream
