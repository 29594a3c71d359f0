#include "doctor/turns.h"

#include <algorithm>

#include "doctor/model_parts.h"

namespace slipstream {
namespace {

constexpr double kFirstTurns = 0.4;  ///< share of the time for one turn of every task
constexpr double kTurnShare = 0.06;  ///< share of the budget for each later turn
constexpr double kForVerdict = 0.6;  ///< largest share of the time for values that a verdict needs
/// A value is certain enough if half of its confidence interval is at most this share of it.
constexpr double kSure = 0.01;
constexpr double kUnknown = 1;  ///< the uncertainty of an unmeasured task of weight 1

double unsure(const Task& task) { return task.weight * std::min(1.0, half_width(task.figure())); }

class TurnScheduler {
 public:
  TurnScheduler(std::deque<Task>& tasks, const Turns& turns) : tasks_(tasks), turns_(turns) {
    double weights = 0;
    for (const Task& task : tasks) weights += task.weight;
    first_s_ = kFirstTurns * std::max(0.0, turns.left()) / std::max(1.0, weights);
  }

  void run() {
    auto essentials = std::count_if(tasks_.begin(), tasks_.end(),
                                    [](const Task& task) { return task.is_essential; });
    for (Task& task : tasks_) {
      if (!task.is_essential || turns_.stopped()) continue;
      const double part_s = std::max(0.0, turns_.left()) / static_cast<double>(essentials--);
      turns_.attempt(task, {task.weight * first_s_, part_s});
    }
    verdict_s_ = kForVerdict * turns_.left();
    while (!turns_.stopped()) {
      check_doubtful();
      Task* const next = pick();
      if (next == nullptr) break;
      take(*next);
    }
  }

 private:
  void take(Task& task) {
    const double before_s = turns_.left();
    const bool is_first = !task.is_attempted();
    turn_s_ = is_first ? task.weight * first_s_ : turn_s(task);
    turns_.attempt(task, {turn_s_, before_s});
    const double passed_s = before_s - turns_.left();
    (is_first ? on_first_s_ : on_others_s_) += passed_s;
    if (!is_first && task.is_essential) verdict_s_ -= passed_s;
    last_ = &task;
  }

  /// Forgets the turns of a doubtful task and measures it anew, if there is time.
  void check_doubtful() {
    if (is_repeated_ || !turns_.doubtful) return;
    Task* const task = turns_.doubtful();
    if (task == nullptr || !task->error->empty() || task->turn_s >= turns_.left()) return;
    is_repeated_ = true;
    if (task->restart) task->restart();
    take(*task);
  }

  /// Returns the essential task whose interval is widest, if it is too wide for a verdict and most
  /// of the time was not used for such tasks; otherwise null.
  Task* pick_for_verdict() const {
    Task* widest = nullptr;
    for (Task& task : tasks_) {
      const bool can_run = task.error->empty() && task.turn_s < turns_.left();
      if (!task.is_essential || !can_run || half_width(task.figure()) <= kWidest) continue;
      if (widest == nullptr || half_width(task.figure()) > half_width(widest->figure()))
        widest = &task;
    }
    return verdict_s_ > 0 ? widest : nullptr;
  }

  /// Returns the next task, or null if all values are certain or the time is used up. Tasks whose
  /// intervals do not allow a verdict come first, and then those that were not tried. But a heavy
  /// task that was measured badly may matter more than an unmeasured one of weight 1. Until all are
  /// tried, such tasks get up to half of the time.
  Task* pick() const {
    if (turns_.left() <= 0) return nullptr;
    if (Task* const task = pick_for_verdict()) return task;
    Task *untried = nullptr, *wildest = nullptr;
    for (Task& task : tasks_) {
      if (!task.is_attempted()) {
        if (untried == nullptr) untried = &task;
      } else if (task.error->empty() && task.turn_s < turns_.left() &&
                 (wildest == nullptr || unsure(task) > unsure(*wildest))) {
        wildest = &task;
      }
    }
    if (wildest == nullptr) return untried;
    if (untried == nullptr) return unsure(*wildest) >= kSure ? wildest : nullptr;
    return unsure(*wildest) >= kUnknown && on_others_s_ <= on_first_s_ ? wildest : untried;
  }

  /// Doubles the turn of a task that stays the least certain: each turn begins with uncounted
  /// steps.
  double turn_s(const Task& task) const {
    const double shortest_s = kTurnShare * turns_.budget_s;
    const double longer_s = &task == last_ ? std::min(2 * turn_s_, turns_.left() / 2) : 0;
    return std::min(std::max(longer_s, shortest_s), turns_.left());
  }

  std::deque<Task>& tasks_;
  const Turns& turns_;
  double first_s_;        ///< seconds of the first turn of a task of weight 1
  double verdict_s_ = 0;  ///< seconds that are left for pick_for_verdict()
  double on_first_s_ = 0;
  double on_others_s_ = 0;
  double turn_s_ = 0;  ///< seconds that the last turn was given
  const Task* last_ = nullptr;
  bool is_repeated_ = false;  ///< whether a doubtful task was measured anew
};

}  // namespace

void measure_in_turns(std::deque<Task>& tasks, const Turns& turns) {
  TurnScheduler(tasks, turns).run();
  for (Task& task : tasks)
    if (!task.is_attempted() && !turns.stopped())
      *task.error = "the time for measuring was used up; raise the budget";
}

}  // namespace slipstream
