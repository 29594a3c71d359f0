#include "core/enum_names.h"
#include "doctor/pipeline_model.h"

namespace slipstream {
namespace {

constexpr EnumNames<Bottleneck, 12> kNames = {
    {{Bottleneck::device, "device"},
     {Bottleneck::copy, "copy"},
     {Bottleneck::transforms, "transforms"},
     {Bottleneck::collate, "collate"},
     {Bottleneck::part, "part"},
     {Bottleneck::decode, "decode"},
     {Bottleneck::read, "read"},
     {Bottleneck::launch_overhead, "launch_overhead"},
     {Bottleneck::lock_contention, "lock_contention"},
     {Bottleneck::memory_bandwidth, "memory_bandwidth"},
     {Bottleneck::none, "none"},
     {Bottleneck::not_enough_evidence, "not_enough_evidence"}}};

constexpr EnumNames<ShareGate, 3> kGateNames = {{{ShareGate::passes, "passes"},
                                                 {ShareGate::fails, "fails"},
                                                 {ShareGate::undecided, "undecided"}}};

}  // namespace

std::string_view to_string(ShareGate gate) { return enum_name(kGateNames, gate); }

std::string_view to_string(Bottleneck bottleneck) { return enum_name(kNames, bottleneck); }

Bottleneck bottleneck_named(std::string_view name) {
  return enum_named(kNames, "bottleneck", name);
}

Bottleneck host_step_group(std::size_t index, std::size_t steps) {
  if (index == 0) return Bottleneck::read;
  if (index + 1 == steps) return Bottleneck::collate;
  return index == 1 ? Bottleneck::decode : Bottleneck::transforms;
}

Bottleneck part_group(std::string_view name) {
  for (const Bottleneck group :
       {Bottleneck::read, Bottleneck::decode, Bottleneck::transforms, Bottleneck::collate})
    if (name == to_string(group)) return group;
  return Bottleneck::part;
}

std::vector<std::string> bottleneck_names(const Diagnosis& diagnosis) {
  std::vector<std::string> names;
  auto part = diagnosis.parts.begin();
  for (const Bottleneck bottleneck : diagnosis.bottlenecks)
    names.emplace_back(bottleneck == Bottleneck::part ? *part++
                                                      : std::string(to_string(bottleneck)));
  return names;
}

std::string verdict_name(const Diagnosis& diagnosis) {
  if (diagnosis.verdict == Bottleneck::part) return diagnosis.parts.front();
  return std::string(to_string(diagnosis.verdict));
}

}  // namespace slipstream
