#include "report/loop_watch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/figures.h"
#include "core/number_text.h"
#include "doctor/wording.h"
#include "engine/input_wait.h"

namespace slipstream {
namespace {

constexpr double kShown = 0.01;  ///< smaller parts of a wait are not in sentences
constexpr std::size_t kMostShown = 3;
const char* const kRemedy = "; call slipstream.doctor(loader, step) to find the cause";

/// Returns the rate in a sentence, with three significant digits.
std::string rate_text(const LoopTotals& totals) {
  return rounded_text(totals.steps_per_second(), 3) + " steps/s";
}

/// Adds parts of `seconds` in the proportion of the workers' times.
void add_workers(std::vector<WaitPart>& parts, const WorkerTimes& times, double seconds) {
  if (times.wall_s <= 0) {
    parts.push_back({"workers", "the workers", seconds});
    return;
  }
  const double cpu = std::min(1.0, times.cpu_s / times.wall_s);
  const double core = std::min(1 - cpu, times.core_wait_s / times.wall_s);
  parts.push_back({"worker_cpu", "workers that compute", cpu * seconds});
  parts.push_back({"worker_core", "workers that wait for a core", core * seconds});
  parts.push_back({"worker_blocked",
                   "workers that wait for storage, network, locks or other processes",
                   (1 - cpu - core) * seconds});
}

/// Adds parts of `seconds` in the proportion of the host steps' times. Returns false if there are
/// none.
bool add_host_steps(std::vector<WaitPart>& parts, const std::vector<StepCounter>& host,
                    double seconds) {
  const double all_s =
      std::accumulate(host.begin(), host.end(), 0.0,
                      [](double sum, const StepCounter& step) { return sum + step.wall_s; });
  if (all_s <= 0) return false;
  for (const StepCounter& step : host)
    parts.push_back({step.name, "the step '" + step.name + "' of the loader's workers",
                     seconds * step.wall_s / all_s});
  return true;
}

}  // namespace

void WorkerTimes::add(const WorkerTimes& other) {
  wall_s += other.wall_s;
  cpu_s += other.cpu_s;
  core_wait_s += other.core_wait_s;
}

void LoopTotals::add(const LoopTotals& other) {
  steps += other.steps;
  seconds += other.seconds;
  blocked_s += other.blocked_s;
  idle_s += other.idle_s;
  first_s += other.first_s;
  stages_s += other.stages_s;
  late_s += other.late_s;
  cpu_s += other.cpu_s;
  workers.add(other.workers);
  has_workers = has_workers || other.has_workers;
  ready += other.ready;
  ready_counted += other.ready_counted;
  add_by_name(host, other.host);
}

double LoopTotals::waited_s() const { return input_wait_s(blocked_s, seconds - idle_s, seconds); }

std::optional<double> LoopTotals::batches_ready() const {
  if (ready_counted == 0) return std::nullopt;
  return static_cast<double>(ready) / static_cast<double>(ready_counted);
}

std::vector<WaitPart> wait_parts(const LoopTotals& totals) {
  if (totals.blocked_s <= 0 || totals.seconds <= 0) return {};
  std::vector<WaitPart> parts = {
      {"first_batch", "the first batch of an epoch", totals.first_s},
      {"stages", "copies and stages of the pipeline", totals.stages_s},
      {"late_batch", "a late batch while later ones are ready", totals.late_s}};
  const double rest = std::max(
      0.0, totals.blocked_s - totals.first_s - totals.stages_s - totals.late_s - totals.cpu_s);
  const bool has_others = add_host_steps(parts, totals.host, rest);
  if (!has_others && totals.has_workers) add_workers(parts, totals.workers, rest);
  if (has_others || totals.has_workers) {
    parts.push_back({"receiving", "receiving batches from the workers", totals.cpu_s});
  } else {
    parts.push_back({"loading_cpu", "loading in the loop's thread", totals.cpu_s});
    parts.push_back({"loading_blocked",
                     "a loader that waits for storage, network, locks or other processes", rest});
  }
  // While the host is blocked, the device may still have enqueued work.
  const double hidden = totals.waited_s() / totals.blocked_s;
  for (WaitPart& part : parts) part.share *= hidden / totals.seconds;
  std::erase_if(parts, [](const WaitPart& part) { return part.share <= 0; });
  std::stable_sort(parts.begin(), parts.end(),
                   [](const WaitPart& a, const WaitPart& b) { return a.share > b.share; });
  return parts;
}

std::string describe_waits(const LoopTotals& totals) {
  const double share = totals.input_wait_share();
  std::string text = device_waits(whole_percent(share));
  if (share < kShown) return text;
  std::string shown;
  std::vector<WaitPart> parts = wait_parts(totals);
  parts.resize(std::min(parts.size(), kMostShown));
  for (const WaitPart& part : parts)
    if (part.share >= kShown * share)
      shown += (shown.empty() ? "" : ", ") + whole_percent(part.share / share) + " for " +
               part.description;
  return text + " (" + shown + ")";
}

std::string loop_report(const std::string& name, const LoopTotals& totals) {
  if (totals.steps == 0 || totals.seconds <= 0) return name + ": no batch yet\n";
  std::string text = name + ": " + format_count(totals.steps, "step") + " in " +
                     fixed(totals.seconds, 1) + " s, " + rate_text(totals) + "; " +
                     device_waits(whole_percent(totals.input_wait_share())) + "\n";
  std::vector<std::vector<std::string>> rows = {{"share of time", "name", "waits for"}};
  for (const WaitPart& part : wait_parts(totals))
    if (part.share >= kShown / 2)
      rows.push_back({whole_percent(part.share), part.name, part.description});
  if (rows.size() > 1) text += aligned_table(std::move(rows), {0});
  if (const auto ready = totals.batches_ready())
    text += "batches ready when a step requests one: " + fixed(*ready, 1) + "\n";
  return text;
}

LoopWatch::LoopWatch(std::string name, double every_s)
    : name_(std::move(name)),
      every_s_(every_s),
      starvation_({.counts_ready = false, .remedy = ""}) {}

void LoopWatch::begin_epoch(double now_s, double created_s) {
  end_epoch();
  is_in_epoch_ = is_first_wait_ = true;
  ++epochs_;
  last_s_ = now_s - created_s;
  part_began_s_ = total_.seconds;
  epoch_ = {};
}

void LoopWatch::set_source(bool has_workers, HostCounters host_counters) {
  has_workers_ = has_workers;
  host_counters_ = std::move(host_counters);
  counted_ = host_counters_ ? host_counters_() : std::vector<StepCounter>();
}

LoopTotals LoopWatch::count(const LoopWait& wait) {
  LoopTotals one;
  one.steps = wait.gave_batch ? 1 : 0;
  one.seconds = wait.ended_s - last_s_;
  // Creating the iterator was before the first call of next(), and nothing else was.
  one.blocked_s = is_first_wait_ ? one.seconds : wait.ended_s - wait.began_s;
  one.idle_s = wait.idle_s.value_or(one.blocked_s);
  one.has_workers = has_workers_;
  if (wait.ready) one.ready = *wait.ready, one.ready_counted = 1;
  if (is_first_wait_) {
    one.first_s = one.blocked_s;
    return one;
  }
  const double loader_s = std::min(wait.loader_s.value_or(one.blocked_s), one.blocked_s);
  one.stages_s = one.blocked_s - loader_s;
  if (wait.is_late)
    one.late_s = loader_s;
  else if (wait.was_ready)
    one.cpu_s = loader_s;
  else
    one.cpu_s = std::min(wait.loader_s ? wait.loader_cpu_s : wait.cpu_s, loader_s);
  if (wait.workers && !wait.is_late && !wait.was_ready) one.workers = *wait.workers;
  return one;
}

bool LoopWatch::add(const LoopWait& wait) {
  if (!is_in_epoch_) return false;
  const LoopTotals one = count(wait);
  for (LoopTotals* sum : {&total_, &epoch_, &interval_}) sum->add(one);
  last_s_ = wait.ended_s;
  is_first_wait_ = false;
  if (wait.gave_batch) judge(wait);
  if (interval_.seconds >= every_s_) {
    end_interval();
    lines_.push_back(name_ + ": step " + std::to_string(total_.steps) + ": " +
                     describe_waits(before_) + ", " + rate_text(before_));
  }
  return !lines_.empty() || ended_.has_value();
}

void LoopWatch::judge(const LoopWait& wait) {
  Progress progress;
  progress.step = total_.steps;
  progress.elapsed_s = total_.seconds;
  progress.blocked_s = epoch_.blocked_s;
  progress.busy_s = epoch_.seconds - epoch_.idle_s;
  progress.part_began_s = part_began_s_;
  progress.input = StepInput{wait.ready.value_or(0), wait.ended_s - wait.began_s};
  const WatchWindow* window = starvation_.update(progress);
  if (window == nullptr || window->event.empty()) return;
  std::string line = name_ + ": " + window->message;
  if (window->event == "starved") {
    count_host();
    LoopTotals recent = before_;
    recent.add(interval_);
    const std::vector<WaitPart> parts = wait_parts(recent);
    if (!parts.empty())
      line += ", " + whole_percent(parts.front().share / recent.input_wait_share()) +
              " of it for " + parts.front().description;
    line += kRemedy;
  }
  lines_.push_back(std::move(line));
}

/// Adds the cost of host steps since the last call.
void LoopWatch::count_host() {
  if (!host_counters_) return;
  const std::vector<StepCounter> now = host_counters_();
  std::vector<StepCounter> made = now;
  // A loader that was started again counts from 0.
  const bool continues =
      counted_.size() == now.size() && !now.empty() && now.front().calls >= counted_.front().calls;
  for (std::size_t i = 0; continues && i < made.size(); ++i) made[i].subtract(counted_[i]);
  counted_ = now;
  for (LoopTotals* sum : {&total_, &epoch_, &interval_}) add_by_name(sum->host, made);
}

void LoopWatch::end_interval() {
  count_host();
  before_ = std::exchange(interval_, {});
  if (ended_)
    ended_->add(before_);
  else
    ended_ = before_;
}

void LoopWatch::end_epoch() {
  if (!std::exchange(is_in_epoch_, false)) return;
  if (interval_.steps > 0) end_interval();
  host_counters_ = {};
  if (epoch_.steps > 0)
    lines_.push_back(name_ + ": epoch " + std::to_string(epochs_) + ": " +
                     format_count(epoch_.steps, "step") + " in " + fixed(epoch_.seconds, 1) +
                     " s: " + describe_waits(epoch_) + ", " + rate_text(epoch_));
}

std::vector<std::string> LoopWatch::take_lines() { return std::exchange(lines_, {}); }

std::optional<LoopTotals> LoopWatch::take_totals() { return std::exchange(ended_, std::nullopt); }

const LoopTotals& LoopWatch::totals() {
  count_host();
  return total_;
}

}  // namespace slipstream
