#include "cli/watch.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <sstream>

#include "cli/verbs.h"

namespace slipstream {

void WatchVerb::add_to(CLI::App& verb) {
  verb.add_flag("--watch", watch,
                "Says when the device starts to wait for input, why, and when it recovers")
      ->group(kOutputGroup);
  verb.add_option("--watch-json", json,
                  "Watches, and adds a line of JSON to this file about every second")
      ->group(kOutputGroup);
  verb.add_option("--watch-prom", prometheus,
                  "Watches, and keeps counters in this file for Prometheus")
      ->group(kOutputGroup);
}

RunWatch::RunWatch(const WatchOptions& options, WatchFiles& files, ProgressLine& line)
    : watch_(options), files_(files), line_(line) {}

RunWatch::~RunWatch() { finish(); }

void RunWatch::update(const Progress& progress) { take(watch_.update(progress)); }

void RunWatch::finish() {
  take(watch_.finish());
  if (watch_.totals().steps > 0) tell(files_.end(watch_.totals()));
}

void RunWatch::take(const WatchWindow* window) {
  if (window == nullptr) return;
  const std::string problem = files_.write(*window, watch_.totals());
  tell(window->message);
  tell(problem);
}

void RunWatch::tell(const std::string& message) {
  if (message.empty()) return;
  line_.clear();
  std::cerr << message << std::endl;
}

std::string RunWatch::summary() const {
  const WatchTotals& totals = watch_.totals();
  std::ostringstream text;
  text << std::fixed;
  text.precision(1);
  text << "watch: ";
  if (totals.starvations > 0)
    text << "starved " << totals.starvations << (totals.starvations == 1 ? " time, " : " times, ")
         << totals.starved_s << " s";
  else
    text << (totals.judged_s > 0 ? "never starved" : "too short a run to judge");
  text << "; waited for input " << totals.waited_s << " s of " << totals.seconds << " s";
  return text.str();
}

}  // namespace slipstream
