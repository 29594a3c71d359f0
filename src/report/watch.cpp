#include "report/watch.h"

#include <algorithm>

#include "core/figures.h"
#include "core/number_text.h"
#include "doctor/wording.h"
#include "engine/input_wait.h"

namespace slipstream {
namespace {

constexpr double kLeastSeconds = 1;
constexpr double kMostSeconds = 10;
constexpr std::uint64_t kLeastSteps = 4;
constexpr double kCountEverySeconds = 0.25;
constexpr std::size_t kJudged = 5;
/// Hysteresis: a run starves from twice the limit at which it recovers, so that a share close to
/// the limit does not cause an event in every window.
constexpr double kStarvesFrom = 2 * kMostWaiting;

std::optional<double> workers_busy(const WatchWindow& window, const WatchOptions& options) {
  if (options.workers == 0 || !window.has_rates()) return std::nullopt;
  double busy_s = 0;
  for (std::size_t i = 0; i < window.host.size(); ++i)
    if (!options.read_ahead || host_step_group(i, window.host.size()) != Bottleneck::read)
      busy_s += window.host[i].wall_s;
  return std::clamp(busy_s / (window.seconds * options.workers), 0.0, 1.0);
}

}  // namespace

void add_by_name(std::vector<StepCounter>& total, const std::vector<StepCounter>& more) {
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

const WatchWindow* StarvationWatch::update(const Progress& progress) {
  const WatchWindow* ended = nullptr;
  if (last_.step == 0 || progress.part_began_s != last_.part_began_s) {
    ended = finish();
    begin_part(progress);
  }
  last_ = progress;
  if (progress.input) batches_ready_ += progress.input->filled;
  // update() returns only one window, so a window that began with this very step ends with a later
  // one.
  const bool ends = ended == nullptr && is_full();
  const bool is_last =
      progress.step == (progress.part_ends > 0 ? progress.part_ends : progress.steps);
  if (progress.host_counters && (ends || is_last || last_.elapsed_s >= next_count_s_)) {
    counted_ = progress.host_counters();
    next_count_s_ = last_.elapsed_s + kCountEverySeconds;
  }
  if (!ends) return ended;
  close(true);
  return &window_;
}

const WatchWindow* StarvationWatch::finish() {
  if (last_.step == begin_.step) return nullptr;
  close(is_full());
  return &window_;
}

void StarvationWatch::begin_part(const Progress& progress) {
  begin_ = {.step = progress.step - 1, .elapsed_s = progress.part_began_s};
  next_count_s_ = progress.part_began_s;
  counted_.clear();
  counted_before_.clear();
  batches_ready_ = 0;
  recent_.clear();
  is_first_window_ = true;
}

bool StarvationWatch::is_full() const {
  const double seconds = last_.elapsed_s - begin_.elapsed_s;
  const bool has_enough = last_.step - begin_.step >= kLeastSteps || seconds >= kMostSeconds;
  return seconds >= kLeastSeconds && has_enough;
}

void StarvationWatch::close(bool is_complete) {
  window_ = {.step = last_.step,
             .steps = last_.step - begin_.step,
             .elapsed_s = last_.elapsed_s,
             .seconds = last_.elapsed_s - begin_.elapsed_s};
  window_.waited_s = input_wait_s(last_.blocked_s - begin_.blocked_s, last_.busy_s - begin_.busy_s,
                                  window_.seconds);
  const bool has_loader = last_.input.has_value();
  if (has_loader) {
    if (options_.counts_ready)
      window_.batches_ready =
          static_cast<double>(batches_ready_) / static_cast<double>(window_.steps);
    window_.host = counted_;
    for (std::size_t i = 0; i < counted_before_.size(); ++i)
      window_.host.at(i).subtract(counted_before_[i]);
    window_.workers_busy = workers_busy(window_, options_);
  }
  if (!has_loader) {
    window_.state = "no_loader";
  } else if (!is_first_window_) {
    if (is_complete) judge();
    window_.state = is_starving_ ? "starving" : "fed";
    totals_.judged_s += window_.seconds;
    if (is_starving_) totals_.starved_s += window_.seconds;
  }
  totals_.steps += window_.steps;
  totals_.seconds += window_.seconds;
  totals_.waited_s += window_.waited_s;
  add_by_name(totals_.host, window_.host);
  begin_ = last_;
  counted_before_ = counted_;
  batches_ready_ = 0;
  is_first_window_ = false;
}

void StarvationWatch::judge() {
  recent_.push_back(window_);
  if (recent_.size() > kJudged) recent_.pop_front();
  WatchWindow all, worst;
  double batches_ready = 0;
  for (const WatchWindow& each : recent_) {
    all.steps += each.steps;
    all.seconds += each.seconds;
    all.waited_s += each.waited_s;
    batches_ready += each.batches_ready.value_or(0) * static_cast<double>(each.steps);
    if (each.waited_s > worst.waited_s) worst = each;
  }
  // A single bad window, such as a pause of the storage, is not starvation: the others must wait
  // too.
  WatchWindow others = all;
  others.seconds -= worst.seconds;
  others.waited_s -= worst.waited_s;
  std::string text = device_waits(whole_percent(all.input_wait_share()));
  if (options_.counts_ready)
    text += ", with " + fixed(batches_ready / static_cast<double>(all.steps), 1) + " batches ready";
  const std::string where = "step " + std::to_string(window_.step) + ": ";
  if (!is_starving_ && others.input_wait_share() >= kStarvesFrom) {
    is_starving_ = true;
    steps_before_ = totals_.steps;
    seconds_before_ = totals_.seconds;
    ++totals_.starvations;
    window_.event = "starved";
    window_.message = where + "starving: " + text + options_.remedy;
  } else if (is_starving_ && recent_.size() > 1 && all.input_wait_share() <= kMostWaiting) {
    is_starving_ = false;
    window_.event = "recovered";
    window_.message = where + "recovered: " + text + ", after " +
                      format_count(totals_.steps - steps_before_, "step") + " (" +
                      fixed(totals_.seconds - seconds_before_, 0) + " s)";
  }
}

}  // namespace slipstream
