#include <cstdio>

#include "doctor/model_parts.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g ms", 1e3 * seconds);
  return text;
}

/// Sets the mean cost. The ratios between samples, and between waiting and working, stay the same.
void set_mean(PipelineModel::Step& step, double seconds) {
  double sum = 0;
  for (const float value : step.waiting_s) sum += value;
  for (const float value : step.working_s) sum += value;
  const double mean = sum / static_cast<double>(step.working_s.size());
  if (mean <= 0) {
    step.waiting_s = {0.0F};
    step.working_s = {static_cast<float>(seconds)};
    return;
  }
  const auto by = static_cast<float>(seconds / mean);
  for (float& value : step.waiting_s) value *= by;
  for (float& value : step.working_s) value *= by;
}

void check(const std::vector<AssumedCost>& supposed, const PipelineModel& model) {
  std::vector<std::string> names, problems;
  for (const PipelineModel::Step& step : model.steps) names.push_back(step.name);
  for (const AssumedCost& each : supposed) {
    if (model.find(each.step) == nullptr)
      problems.push_back(unknown_name("host step", each.step, names));
    if (!(each.seconds >= 0 && each.seconds <= AssumedCost::kMostSeconds))
      problems.push_back("'" + each.step +
                         "' cannot take less than 0 ms a sample, or more than an hour");
  }
  refuse(problems);
}

}  // namespace

Change what_if(const Observations& observed, const Diagnosis& diagnosis,
               const std::vector<AssumedCost>& supposed) {
  const PipelineModel& now = *diagnosis.model;
  check(supposed, now);
  Change change;
  change.id = "what_if";
  for (const AssumedCost& each : supposed)
    change.description += (change.description.empty() ? "if '" : ", '") + each.step + "' took " +
                          milliseconds(each.seconds) + " a sample";
  change.model = [supposed](PipelineModel& model) {
    for (const AssumedCost& each : supposed)
      for (PipelineModel::Step& step : model.steps)
        if (step.name == each.step) set_mean(step, each.seconds);
  };
  PipelineModel then = now;
  change.model(then);
  change.predicted = predicted_rate(observed, now, then, diagnosis.model_error);
  change.gain = ratio(change.predicted, diagnosis.rate);
  return change;
}

}  // namespace slipstream
