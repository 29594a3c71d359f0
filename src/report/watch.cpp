#include "report/watch.h"

#include <algorithm>
#include <limits>

#include "core/number_text.h"
#include "report/text.h"
#include "report/watch_cause.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr double kLeastSeconds = 1;
constexpr double kMostSeconds = 10;
constexpr std::uint64_t kLeastSteps = 4;
constexpr double kCountEverySeconds = 0.25;
constexpr std::size_t kJudged = 5;
constexpr std::size_t kFewestWaiting = 2;
constexpr double kNewestWeight = 0.2;
constexpr double kTellingSeconds = 0.01;

/// REQUIRES: `before` is empty or of the same steps, earlier
std::vector<StepCounter> counted_since(const std::vector<StepCounter>& before,
                                       std::vector<StepCounter> now) {
  for (std::size_t i = 0; i < before.size(); ++i) now.at(i).subtract(before[i]);
  return now;
}

void add(std::vector<StepCounter>& total, const std::vector<StepCounter>& more) {
  for (const StepCounter& counter : more) {
    const auto same = std::find_if(total.begin(), total.end(), [&](const StepCounter& each) {
      return each.name == counter.name;
    });
    if (same == total.end())
      total.push_back(counter);
    else
      same->add(counter);
  }
}

double share_of(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

bool waits(const WatchWindow& window) { return window.waited_s > kFedBelow * window.seconds; }

/// Several windows as one.
struct Together {
  double seconds = 0, waited_s = 0, batches_ready = 0;
  double worst_seconds = 0, worst_waited_s = 0;  ///< of the one that waited most
  std::uint64_t steps = 0;
  std::size_t waiting = 0;  ///< windows

  explicit Together(const std::deque<WatchWindow>& windows) {
    for (const WatchWindow& each : windows) {
      seconds += each.seconds;
      waited_s += each.waited_s;
      steps += each.steps;
      batches_ready += each.batches_ready.value_or(0) * static_cast<double>(each.steps);
      waiting += waits(each) ? 1 : 0;
      if (each.waited_s <= worst_waited_s) continue;
      worst_waited_s = each.waited_s;
      worst_seconds = each.seconds;
    }
  }
  double share() const { return share_of(waited_s, seconds); }
  double share_without_worst() const {
    return share_of(waited_s - worst_waited_s, seconds - worst_seconds);
  }
  /// "waits for input 34 % of the time, 0.2 batches ready"
  std::string text() const {
    return "waits for input " + fixed(100 * share(), 0) + " % of the time, " +
           fixed(batches_ready / static_cast<double>(steps), 1) + " batches ready";
  }
};

}  // namespace

std::string_view name_of(WatchState state) {
  switch (state) {
    case WatchState::no_loader:
      return "no_loader";
    case WatchState::warming_up:
      return "warming_up";
    case WatchState::fed:
      return "fed";
    case WatchState::starving:
      break;
  }
  return "starving";
}

std::string_view name_of(WatchEvent event) {
  if (event == WatchEvent::none) return "";
  return event == WatchEvent::starved ? "starved" : "recovered";
}

double WatchWindow::steps_per_second() const {
  if (seconds < kTellingSeconds) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(steps) / seconds;
}

double WatchWindow::samples_per_second(const StepCounter& counter) const {
  if (seconds < kTellingSeconds) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(counter.calls) / seconds;
}

double WatchWindow::input_wait_share() const {
  if (seconds < kTellingSeconds) return std::numeric_limits<double>::quiet_NaN();
  return share_of(waited_s, seconds);
}

StarvationWatch::StarvationWatch(const WatchOptions& options) : options_(options) {}

const WatchWindow* StarvationWatch::update(const Progress& progress) {
  const WatchWindow* ended = nullptr;
  if (begins_anew(progress)) {
    ended = finish();
    begin(progress);
  }
  take(progress);
  // A window that began with this very step ends with a later one: only one is told at a time.
  const bool ends = ended == nullptr && is_full();
  const bool is_last =
      progress.step == (progress.part_ends > 0 ? progress.part_ends : progress.steps);
  if (progress.host_counters && (ends || is_last || elapsed_s_ >= next_count_s_)) {
    counted_ = progress.host_counters();
    next_count_s_ = elapsed_s_ + kCountEverySeconds;
  }
  if (!ends) return ended;
  close(true);
  return &window_;
}

const WatchWindow* StarvationWatch::finish() {
  if (step_ == first_step_) return nullptr;
  close(is_full());
  return &window_;
}

bool StarvationWatch::begins_anew(const Progress& progress) const {
  return step_ == 0 || progress.step <= step_ || progress.elapsed_s < elapsed_s_ ||
         progress.part_began_s != part_began_s_;
}

void StarvationWatch::begin(const Progress& progress) {
  part_began_s_ = began_s_ = next_count_s_ = progress.part_began_s;
  first_step_ = progress.step - std::min<std::uint64_t>(progress.step, 1);
  blocked_before_s_ = busy_before_s_ = 0;
  batches_ready_ = 0;
  counted_.clear();
  counted_before_.clear();
  recent_.clear();
  fed_costs_.clear();
  is_first_window_ = true;
}

void StarvationWatch::take(const Progress& progress) {
  step_ = progress.step;
  elapsed_s_ = progress.elapsed_s;
  blocked_s_ = progress.blocked_s;
  busy_s_ = progress.busy_s;
  has_loader_ = progress.input.has_value();
  if (progress.input) batches_ready_ += progress.input->filled;
}

bool StarvationWatch::is_full() const {
  const double seconds = elapsed_s_ - began_s_;
  const bool has_enough = step_ - first_step_ >= kLeastSteps || seconds >= kMostSeconds;
  return seconds >= kLeastSeconds && has_enough;
}

void StarvationWatch::close(bool is_whole) {
  window_ = {};
  window_.step = step_;
  window_.steps = step_ - first_step_;
  window_.elapsed_s = elapsed_s_;
  window_.seconds = elapsed_s_ - began_s_;
  const double idle_s = window_.seconds - (busy_s_ - busy_before_s_);
  window_.waited_s = std::clamp(blocked_s_ - blocked_before_s_, 0.0, std::max(0.0, idle_s));
  take_costs();
  if (!has_loader_) {
    window_.state = WatchState::no_loader;
  } else if (!is_first_window_) {
    if (is_whole) judge();
    window_.state = is_starving_ ? WatchState::starving : WatchState::fed;
    if (is_starving_) window_.cause = cause_;
  }
  add_to_totals();
  first_step_ = step_;
  began_s_ = elapsed_s_;
  blocked_before_s_ = blocked_s_;
  busy_before_s_ = busy_s_;
  batches_ready_ = 0;
  is_first_window_ = false;
}

void StarvationWatch::take_costs() {
  if (!has_loader_) return;
  window_.batches_ready = static_cast<double>(batches_ready_) / static_cast<double>(window_.steps);
  window_.host = counted_since(counted_before_, counted_);
  counted_before_ = counted_;
  if (options_.workers == 0 || window_.seconds < kTellingSeconds) return;
  double busy_s = 0;
  for (const StepCounter& step : window_.host)
    if (options_.readers == 0 || group_of(step.name) != Culprit::raw_reading) busy_s += step.wall_s;
  window_.workers_busy = share_of(busy_s, window_.seconds * options_.workers);
}

void StarvationWatch::judge() {
  if (waits(window_))
    cause_ = cause_of({window_.host, window_.seconds, fed_costs_, options_});
  else if (!is_starving_)
    learn_fed_costs();
  recent_.push_back(window_);
  if (recent_.size() > kJudged) recent_.pop_front();
  const Together together(recent_);
  const std::string where = "step " + std::to_string(step_) + ": ";
  if (!is_starving_ && together.waiting >= kFewestWaiting &&
      together.share_without_worst() >= kStarvesFrom) {
    is_starving_ = true;
    steps_before_ = totals_.steps;
    seconds_before_ = totals_.seconds;
    ++totals_.starvations;
    window_.event = WatchEvent::starved;
    window_.message = printable(where + "starving: " + together.text() + "; " + text_of(*cause_));
  } else if (is_starving_ && recent_.size() >= kFewestWaiting && together.share() <= kFedBelow) {
    is_starving_ = false;
    window_.event = WatchEvent::recovered;
    window_.message = where + "recovered: " + together.text() + ", after " +
                      count_of(totals_.steps - steps_before_, "step") + " (" +
                      fixed(totals_.seconds - seconds_before_, 0) + " s)";
  }
}

void StarvationWatch::learn_fed_costs() {
  const std::vector<double> costs = costs_of_a_sample(window_.host);
  if (costs.empty()) return;
  if (fed_costs_.size() != costs.size()) fed_costs_ = costs;
  for (std::size_t i = 0; i < costs.size(); ++i)
    fed_costs_[i] += kNewestWeight * (costs[i] - fed_costs_[i]);
}

void StarvationWatch::add_to_totals() {
  totals_.steps += window_.steps;
  totals_.seconds += window_.seconds;
  totals_.waited_s += window_.waited_s;
  if (window_.state == WatchState::starving || window_.state == WatchState::fed)
    totals_.judged_s += window_.seconds;
  if (window_.state == WatchState::starving) totals_.starved_s += window_.seconds;
  add(totals_.host, window_.host);
}

}  // namespace slipstream
