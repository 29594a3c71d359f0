#include <array>
#include <utility>

#include "slipstream/error.h"
#include "slipstream/pipeline_model.h"

namespace slipstream {
namespace {

constexpr std::array<std::pair<Culprit, std::string_view>, 10> kNames = {{
    {Culprit::gpu, "gpu"},
    {Culprit::copy, "copy"},
    {Culprit::transforms, "transforms"},
    {Culprit::decode, "decode"},
    {Culprit::raw_reading, "raw_reading"},
    {Culprit::launch, "launch"},
    {Culprit::lock, "lock"},
    {Culprit::memory_bandwidth, "memory_bandwidth"},
    {Culprit::none, "none"},
    {Culprit::not_enough_evidence, "not_enough_evidence"},
}};

}  // namespace

std::string_view name_of(Culprit culprit) {
  for (const auto& [known, name] : kNames)
    if (known == culprit) return name;
  return "";
}

Culprit culprit_named(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [culprit, each] : kNames) {
    if (each == name) return culprit;
    known.emplace_back(each);
  }
  throw Refused(unknown_name("culprit", name, known));
}

}  // namespace slipstream
