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

/// Columns of the terminal behind a file descriptor; 0 when it is no terminal.
std::size_t terminal_columns(int descriptor);

/// Whether the reader of a pipe or terminal has gone away, as `head` does when it has read enough.
bool has_no_reader(int descriptor);

/// What is shown of a training beside its Progress; what is empty is not.
struct TrainingFacts {
  std::string epoch;         ///< such as "3/90"
  std::string score;         ///< the latest, such as "top1 0.761"
  std::optional<double> lr;  ///< learning rate
};

struct ProgressLineOptions {
  /// Columns of the terminal, asked at every drawing; 0: no terminal, log lines instead.
  std::function<std::size_t()> columns = [] { return std::size_t{0}; };
  double draw_every_s = 0.1;  ///< on a terminal
  double log_every_s = 5;     ///< elsewhere
  /// Asked at the end: whether the last state is still of interest where there is no terminal.
  std::function<bool()> is_read = [] { return !has_no_reader(1); };
  /// Asked when a line is shown.
  std::function<TrainingFacts(const Progress&)> facts = {};
};

/// Shows how a run goes on: on a terminal one live line (epoch, step, steps/s of the last seconds
/// without the first step, loss, score, learning rate, share of time that the device waited for
/// input, time left), elsewhere a line every few seconds. Cheap enough to be called each step: time
/// is what Progress::elapsed_s says, and most calls only compare it. Not thread-safe. A stream that
/// fails is ignored.
class ProgressLine {
 public:
  /// `out` must outlive this.
  ProgressLine(std::ostream& out, ProgressLineOptions options);
  /// finish()
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Steps or time that go back (a second run) begin a new measurement of steps/s.
  void update(const Progress& progress);
  /// Clears the live line, so that something else can be printed; the next update draws it again.
  void clear();
  /// Clears the live line and writes `message` as a line; nothing for "".
  void print(const std::string& message);
  /// Clears the live line; elsewhere logs the last state unless that was done, or the program's
  /// output has no reader any more.
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
  std::deque<Sample> recent_;  ///< of the last seconds, the newest last
  double next_draw_s_ = 0;
  double next_log_s_;
  std::size_t drawn_columns_ = 0;
  bool live_ = false;  ///< whether there is a terminal
  bool shown_ = true;  ///< whether `last_` has been shown
};

}  // namespace slipstream
