#include "cli/parts_line.h"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "report/progress_line.h"

namespace slipstream {
namespace {

constexpr std::size_t kWidth = 30;
constexpr auto kDrawEvery = std::chrono::milliseconds(100);
constexpr auto kLogEvery = std::chrono::seconds(5);

}  // namespace

PartsLine::PartsLine(std::string parts)
    : parts_(std::move(parts)), next_draw_(Clock::now()), next_log_(Clock::now() + kLogEvery) {}

PartsLine::~PartsLine() {
  const Lock lock(mutex_);
  if (!is_live_) return;
  if (has_no_reader(STDOUT_FILENO))
    std::cerr << '\r' << std::string(columns_, ' ') << '\r' << std::flush;
  else
    std::cerr << "\n";
}

void PartsLine::update(std::size_t done, std::size_t all) {
  const Lock lock(mutex_);
  const auto now = Clock::now();
  if (done <= shown_ || (done < all && now < next_draw_)) return;
  next_draw_ = now + kDrawEvery;
  is_live_ = terminal_columns(2) > 0;
  if (!is_live_ && done < all && now < next_log_) return;
  if (!is_live_ && done == all && has_no_reader(STDOUT_FILENO)) return;
  next_log_ = now + kLogEvery;
  shown_ = done;
  const std::size_t filled = kWidth * done / all;
  const std::string line = "[" + std::string(filled, '#') + std::string(kWidth - filled, ' ') +
                           "] " + std::to_string(done) + "/" + std::to_string(all) + " " + parts_;
  columns_ = line.size();
  std::cerr << (is_live_ ? "\r" : "") << line << (is_live_ ? "" : "\n") << std::flush;
}

}  // namespace slipstream
