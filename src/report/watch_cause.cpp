#include "report/watch_cause.h"

#include <algorithm>
#include <array>

#include "report/text.h"

namespace slipstream {
namespace {

constexpr double kGrown = 0.2;
constexpr double kWorks = 0.5;

struct Group {
  Culprit name;
  double wall_s = 0, cpu_s = 0;
  double load_s = 0;                       ///< wall_s over the threads that do it
  double cost_s = 0;                       ///< load_s of a sample
  double fed_cost_s = 0;                   ///< the same, while the run was fed
  std::string costliest = {}, grown = {};  ///< steps
  double most_s = 0, most_grown_s = 0;

  double growth_s() const { return cost_s - fed_cost_s; }
};
using Groups = std::array<Group, 3>;

double threads_of(Culprit group, const WatchOptions& options) {
  if (options.readers == 0) return 1;  // shares are all that counts
  return std::max(1U, group == Culprit::raw_reading ? options.readers : options.workers);
}

Groups groups_of(const WatchEvidence& evidence) {
  Groups groups = {Group{Culprit::raw_reading}, {Culprit::decode}, {Culprit::transforms}};
  const std::vector<double> costs = costs_of_a_sample(evidence.host);
  const bool was_fed = evidence.fed_costs.size() == costs.size();
  for (std::size_t i = 0; i < evidence.host.size(); ++i) {
    const StepCounter& step = evidence.host[i];
    Group& group = *std::find_if(groups.begin(), groups.end(), [&](const Group& each) {
      return each.name == group_of(step.name);
    });
    const double threads = threads_of(group.name, evidence.options);
    const double cost_s = costs.empty() ? 0 : costs[i] / threads;
    const double fed_s = was_fed && !costs.empty() ? evidence.fed_costs[i] / threads : cost_s;
    group.wall_s += step.wall_s;
    group.cpu_s += step.cpu_s;
    group.load_s += step.wall_s / threads;
    group.cost_s += cost_s;
    group.fed_cost_s += fed_s;
    if (group.costliest.empty() || step.wall_s > group.most_s) {
      group.most_s = step.wall_s;
      group.costliest = step.name;
    }
    if (group.grown.empty() || cost_s - fed_s > group.most_grown_s) {
      group.most_grown_s = cost_s - fed_s;
      group.grown = step.name;
    }
  }
  return groups;
}

const Group& costliest_of(const Groups& groups, bool has_readers) {
  const auto by_load = [](const Group& a, const Group& b) { return a.load_s < b.load_s; };
  if (!has_readers) return *std::max_element(groups.begin(), groups.end(), by_load);
  if (groups[0].load_s >= groups[1].load_s + groups[2].load_s) return groups[0];
  return by_load(groups[1], groups[2]) ? groups[2] : groups[1];
}

}  // namespace

Culprit group_of(const std::string& step) {
  if (step == "read") return Culprit::raw_reading;
  return step == "decode" ? Culprit::decode : Culprit::transforms;
}

std::vector<double> costs_of_a_sample(const std::vector<StepCounter>& host) {
  std::vector<double> costs;
  if (host.empty() || host.back().calls == 0) return costs;
  for (const StepCounter& step : host)
    costs.push_back(step.wall_s / static_cast<double>(host.back().calls));
  return costs;
}

WatchCause cause_of(const WatchEvidence& evidence) {
  const Groups groups = groups_of(evidence);
  const bool has_readers = evidence.options.readers > 0;
  const Group* found = &costliest_of(groups, has_readers);
  if (found->wall_s <= 0) return {};
  double fed_s = 0;
  for (const Group& group : groups) fed_s += group.fed_cost_s;
  const auto* grown =
      std::max_element(groups.begin(), groups.end(),
                       [](const Group& a, const Group& b) { return a.growth_s() < b.growth_s(); });
  const bool has_grown = grown->growth_s() > kGrown * fed_s;
  if (has_grown) found = grown;

  WatchCause cause;
  cause.group = found->name;
  cause.step = has_grown ? found->grown : found->costliest;
  cause.cpu_share = std::min(1.0, found->cpu_s / found->wall_s);
  if (!evidence.fed_costs.empty() && found->fed_cost_s > 0)
    cause.growth = found->cost_s / found->fed_cost_s;
  if (has_readers && found->name == Culprit::raw_reading) {
    cause.readers = evidence.options.readers;
    cause.share = std::min(1.0, found->load_s / evidence.seconds);
  } else {
    double all_s = 0;
    for (const Group& group : groups)
      if (!has_readers || group.name != Culprit::raw_reading) all_s += group.wall_s;
    cause.share = found->wall_s / all_s;
  }
  return cause;
}

std::string text_of(const WatchCause& cause) {
  if (cause.group == Culprit::not_enough_evidence)
    return "no sample went through a host step meanwhile";
  const std::string share = fixed(100 * cause.share, 0) + " % of ";
  const std::string step = "'" + cause.step + "'";
  std::string text;
  if (cause.readers > 0)
    text = step + " keeps " + std::to_string(cause.readers) + " readers busy " + share + "the time";
  else if (cause.group == Culprit::transforms)
    text = "transforms, most of all " + step + ", take " + share + "the workers' time";
  else
    text = step + " takes " + share + "the workers' time";
  if (cause.growth) text += ", " + fixed(*cause.growth, 1) + " x as long a sample as before";
  text += "; CPU time is " + fixed(100 * cause.cpu_share, 0) + " % of that";
  if (cause.cpu_share < kWorks) text += ": it waits, for storage, a lock or a core";
  return text;
}

}  // namespace slipstream
