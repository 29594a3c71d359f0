#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "slipstream/engine/result.h"

namespace slipstream {

/// Returns the number of columns of the terminal that a file descriptor refers to, or 0 if it is
/// not a terminal.
std::size_t terminal_columns(int descriptor);

/// Returns true if the reader of a pipe or terminal has gone, as `head` exits when it has read
/// enough.
bool has_no_reader(int descriptor);

/// Information on a training that is shown next to its Progress. Empty members are not shown.
struct TrainingFacts {
  std::string epoch;         ///< such as "3/90"
  std::string score;         ///< the latest score, such as "top1 0.761"
  std::optional<double> lr;  ///< learning rate
};

struct ProgressLineOptions {
  /// Returns the columns of the terminal. Called for every drawing; 0 means that there is no
  /// terminal, and log lines are written instead.
  std::function<std::size_t()> columns = [] { return std::size_t{0}; };
  double draw_every_s = 0.1;  ///< interval on a terminal
  double log_every_s = 5;     ///< interval of log lines otherwise
  /// Called at the end: returns true if the last state should still be logged without a terminal.
  std::function<bool()> is_read = [] { return !has_no_reader(1); };
  /// Called when a line is shown.
  std::function<TrainingFacts(const Progress&)> facts = {};
};

/// Shows the progress of a run: on a terminal one live line (epoch, step, steps/s of the last
/// seconds without the first step, loss, score, learning rate, share of time that the device waited
/// for input, time left), otherwise a log line every few seconds. Cheap enough to be called each
/// step: the time is Progress::elapsed_s, and most calls only compare it. Not thread-safe. Errors
/// of the stream are ignored.
class ProgressLine {
 public:
  /// `out` must outlive this.
  ProgressLine(std::ostream& out, ProgressLineOptions options);
  /// Calls finish().
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Updates the line. If steps or time go back (a second run), the measurement of steps/s
  /// restarts.
  void update(const Progress& progress);
  /// Clears the live line, so that other text can be printed. The next update() draws it again.
  void clear();
  /// Clears the live line and writes `message` as a line. Does nothing for "".
  void print(const std::string& message);
  /// Clears the live line. Without a terminal, logs the last state unless it was logged already or
  /// the program's output has no reader any more.
  void finish();

 private:
  struct Sample {
    double time_s;
    std::uint64_t step;
  };

  void observe();
  double steps_per_second() const;
  std::string text(std::size_t columns) const;
  void draw(std::size_t columns);
  void log();

  std::ostream& out_;
  ProgressLineOptions options_;
  Progress last_;
  std::deque<Sample> recent_;  ///< samples of the last seconds, in order
  double next_draw_s_ = 0;
  double next_log_s_;
  std::size_t drawn_columns_ = 0;
  bool live_ = false;  ///< true if there is a terminal
  bool shown_ = true;  ///< true if `last_` has been shown
};

}  // namespace slipstream
