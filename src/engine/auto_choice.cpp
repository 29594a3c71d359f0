#include "engine/auto_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

namespace slipstream {
namespace {

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

/// Returns true if the difference is larger than its own uncertainty. That is the root of the sum
/// of squares of the two halves of the intervals between the values, because the errors of the two
/// rates are independent.
bool differ(const Measured& a, const Measured& b) {
  const Measured& fast = a.value > b.value ? a : b;
  const Measured& slow = a.value > b.value ? b : a;
  return fast.value - slow.value > std::hypot(fast.value - fast.low, slow.high - slow.value);
}

std::string nothing_steady(const PlanRate& serial, const PlanRate& pipelined) {
  std::string whose = serial.rate ? "pipelined" : "serial";
  if (!serial.rate && !pipelined.rate) whose = "both plans";
  return "too few steps: all steps of " + whose + " may have used prefetched batches";
}

PlanRate to_plan_rate(const SteadyRate& rate) {
  if (!rate.is_measured()) return {};
  return {rate.rate(), rate.steps(), rate.is_conclusive()};
}

}  // namespace

AutoChoice choose_mode(const PlanRate& serial, const PlanRate& pipelined) {
  AutoChoice choice{"serial", "", {}, {}};
  if (serial.rate) choice.serial = *serial.rate;
  if (pipelined.rate) choice.pipelined = *pipelined.rate;
  if (!serial.rate || !pipelined.rate) {
    choice.reason = nothing_steady(serial, pipelined);
    return choice;
  }
  if (choice.pipelined.value > choice.serial.value) choice.chosen = "pipelined";
  const std::string one = "pipelined " + figure(choice.pipelined.value);
  const std::string other = "serial " + figure(choice.serial.value) + " steps/s";
  if (differ(choice.serial, choice.pipelined))
    choice.reason = one + " steps/s, " + other + ", measured over " +
                    std::to_string(pipelined.steps) + " and " + std::to_string(serial.steps) +
                    " steady steps";
  else if (serial.is_conclusive && pipelined.is_conclusive)
    choice.reason = one + " and " + other + " do not differ by more than the noise";
  else
    choice.reason =
        one + " and " + other + " do not differ by more than prefetched batches may have hidden";
  return choice;
}

AutoChoice with_graph(AutoChoice choice, const PlanRate& graph) {
  if (!graph.rate) {
    choice.reason += "; too few steps to measure graph";
    return choice;
  }
  choice.graph = *graph.rate;
  const Measured& other = choice.chosen == "pipelined" ? choice.pipelined : choice.serial;
  if (choice.graph.value > other.value) choice.chosen = "graph";
  choice.reason = "graph " + figure(choice.graph.value) + " steps/s, " + choice.reason;
  return choice;
}

AutoChoice with_graph(AutoChoice choice, const SteadyRate& graph) {
  return with_graph(std::move(choice), to_plan_rate(graph));
}

AutoChoice choose_mode(const SteadyRate& serial, const SteadyRate& pipelined) {
  return choose_mode(to_plan_rate(serial), to_plan_rate(pipelined));
}

}  // namespace slipstream
