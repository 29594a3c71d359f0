#include "doctor/wording.h"

#include <cstdio>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

const char* words_for(Bottleneck bottleneck, const Observations& observed) {
  switch (bottleneck) {
    case Bottleneck::copy:
      return passes_batches(observed) ? "passing batches from worker processes to the device"
                                      : "copying batches to the device";
    case Bottleneck::transforms:
      return "the transforms on loader threads";
    case Bottleneck::collate:
      return "collating samples into batches";
    case Bottleneck::decode:
      return "decoding";
    case Bottleneck::read:
      return "reading samples";
    case Bottleneck::lock_contention:
      return "workers that wait for each other";
    case Bottleneck::memory_bandwidth:
      return "workers that share the memory bandwidth";
    default:
      return "";
  }
}

/// Returns a remark if the whole pipeline, which does more work, is certainly faster than the
/// ceiling, unless the difference rounds to 0 %.
std::string low_ceiling(const Measured& share) {
  constexpr double kShown = 0.005;
  if (share.low <= 1 || share.value < 1 + kShown) return "";
  return "; the ceiling was measured too low, by " + whole_percent(share.value - 1);
}

}  // namespace

std::string whole_percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * share);
  return text;
}

std::string device_waits(const std::string& share) {
  return "the device waits for input " + share + " of the time";
}

std::string reason_for(const Contradiction& found) {
  return "the machine's speed changed by " + whole_percent(found.by) +
         " during the measurement: '" + found.shorter + "' was slower than '" + found.longer +
         "', which does more work";
}

std::string budget_option(const Observations& observed) {
  return observed.situation.is_python_loop ? "(budget=)" : "(--budget)";
}

std::string reason_for(const Diagnosis& diagnosis, const Observations& observed) {
  const std::string share = whole_percent(diagnosis.share.value);
  const std::string fed =
      (diagnosis.share.value >= kStarved ? "input keeps up ("
                                         : "input keeps up within the noise (") +
      share + " of the ceiling" + low_ceiling(diagnosis.share) + ")";
  switch (diagnosis.verdict) {
    case Bottleneck::device:
      return fed + ": the device is the limit";
    case Bottleneck::launch_overhead:
      return fed + ": the host needs as long to enqueue a step as the device to execute it";
    case Bottleneck::none:
      return fed + ", and the device is not fully used";
    case Bottleneck::not_enough_evidence:
      return diagnosis.reason;
    default:
      break;
  }
  std::string text = "the pipeline reaches " + share + " of the ceiling; bottleneck: ";
  const std::vector<std::string> names = bottleneck_names(diagnosis);
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : ", then ") + (diagnosis.bottlenecks[i] == Bottleneck::part
                                             ? "'" + names[i] + "'"
                                             : words_for(diagnosis.bottlenecks[i], observed));
  return text;
}

}  // namespace slipstream
