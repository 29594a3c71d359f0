#include "report/progress_line.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ostream>
#include <utility>

#include "core/figures.h"
#include "core/number_text.h"

namespace slipstream {
namespace {

constexpr double kWindowSeconds = 5;
constexpr std::size_t kUsualColumns = 80;

std::string clock_text(double seconds) {
  const auto total = static_cast<std::uint64_t>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  const auto two_digits = [](std::uint64_t value) {
    return (value < 10 ? "0" : "") + std::to_string(value);
  };
  const std::string rest = two_digits(total % 60);
  if (total < 3600) return std::to_string(total / 60) + ":" + rest;
  return std::to_string(total / 3600) + ":" + two_digits(total / 60 % 60) + ":" + rest;
}

enum Part : std::uint8_t { epoch, steps, rate, loss, score, lr, input_wait, time_left, count };
using Parts = std::array<std::string, count>;

std::string joined(const Parts& parts) {
  std::string line;
  for (const std::string& part : parts)
    if (!part.empty()) line += (line.empty() ? "" : "  ") + part;
  return line;
}

}  // namespace

std::size_t terminal_columns(int descriptor) {
  if (::isatty(descriptor) != 1) return 0;
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualColumns;
}

bool has_no_reader(int descriptor) {
  pollfd output{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

ProgressLine::ProgressLine(std::ostream& out, ProgressLineOptions options)
    : out_(out), options_(std::move(options)), next_log_s_(options_.log_every_s) {}

ProgressLine::~ProgressLine() { finish(); }

void ProgressLine::update(const Progress& progress) {
  if (progress.step < last_.step || progress.elapsed_s < last_.elapsed_s) {
    recent_.clear();
    next_draw_s_ = progress.elapsed_s;
    next_log_s_ = progress.elapsed_s + options_.log_every_s;
  }
  if (progress.measuring != last_.measuring) next_draw_s_ = progress.elapsed_s;
  last_ = progress;
  shown_ = false;
  if (progress.elapsed_s < next_draw_s_) return;
  next_draw_s_ = progress.elapsed_s + options_.draw_every_s;
  observe();
  const std::size_t columns = options_.columns();
  live_ = columns > 0;
  if (live_) {
    draw(columns);
  } else if (progress.elapsed_s >= next_log_s_) {
    log();
  }
}

void ProgressLine::clear() {
  if (drawn_columns_ == 0) return;
  out_ << '\r' << std::string(drawn_columns_, ' ') << '\r' << std::flush;
  drawn_columns_ = 0;
  next_draw_s_ = 0;
}

void ProgressLine::print(const std::string& message) {
  if (message.empty()) return;
  clear();
  out_ << message << std::endl;
}

void ProgressLine::finish() {
  clear();
  if (!shown_ && !live_ && options_.is_read()) log();
  shown_ = true;
}

void ProgressLine::observe() {
  recent_.push_back({last_.elapsed_s, last_.step});
  while (recent_.size() > 2 && recent_.front().time_s < last_.elapsed_s - kWindowSeconds)
    recent_.pop_front();
}

double ProgressLine::steps_per_second() const {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  if (recent_.size() < 2) return kUnknown;
  const double seconds = last_.elapsed_s - recent_.front().time_s;
  const double rate = static_cast<double>(last_.step - recent_.front().step) / seconds;
  return seconds > 0 && rate > 0 ? rate : kUnknown;
}

std::string ProgressLine::text(std::size_t columns) const {
  const double per_second = steps_per_second();
  Parts parts;
  parts[steps] = "step " + std::to_string(last_.step);
  if (last_.steps > 0) parts[steps] += "/" + std::to_string(last_.steps);
  parts[rate] = fixed(per_second, decimals_for(per_second, 3)) + " steps/s";
  parts[loss] = "loss " + rounded_text(last_.loss, 4);
  parts[input_wait] = "input wait " + fixed(100 * last_.input_wait_share, 0) + " %";
  if (last_.steps > last_.step && std::isfinite(per_second))
    parts[time_left] =
        "left " + clock_text(static_cast<double>(last_.steps - last_.step) / per_second);

  if (options_.facts) {
    const TrainingFacts facts = options_.facts(last_);
    if (!facts.epoch.empty()) parts[epoch] = "epoch " + facts.epoch;
    parts[score] = facts.score;
    if (facts.lr) parts[lr] = "lr " + rounded_text(*facts.lr, 3);
  }
  if (!last_.measuring.empty()) {
    const std::string step = parts[steps];
    parts = {};
    parts[steps] = step;
    parts[rate] = "measuring lane '" + last_.measuring + "' alone";
  }

  std::string line = joined(parts);
  // If the terminal is too narrow, the least important parts are dropped first.
  for (const Part dropped : {input_wait, lr, score, epoch, loss, time_left, rate}) {
    if (line.size() <= columns) break;
    parts[dropped].clear();
    line = joined(parts);
  }
  return line.substr(0, columns);
}

void ProgressLine::draw(std::size_t columns) {
  // The last column stays free, because some terminals wrap when it is written.
  const std::string line = text(columns - 1);
  const std::size_t covered = std::min(drawn_columns_, columns - 1);
  const std::string blanks(covered > line.size() ? covered - line.size() : 0, ' ');
  out_ << '\r' << line << blanks << std::flush;
  drawn_columns_ = line.size();
  shown_ = true;
}

void ProgressLine::log() {
  out_ << text(std::numeric_limits<std::size_t>::max()) << std::endl;
  next_log_s_ = last_.elapsed_s + options_.log_every_s;
  shown_ = true;
}

}  // namespace slipstream
