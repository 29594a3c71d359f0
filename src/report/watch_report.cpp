#include "report/watch_report.h"

#include <system_error>
#include <utility>
#include <vector>

#include "core/figures.h"
#include "core/number_text.h"
#include "report/json.h"
#include "slipstream/core/error.h"
#include "slipstream/doctor/diagnosis.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

/// Returns a label as valid UTF-8, which the format requires.
std::string label(const std::string& name, std::string_view text) {
  std::string value;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') value += '\\';
    value += c == '\n' ? "\\n" : std::string(1, c);
  }
  return name + "=\"" + value + "\"";
}

/// Returns a metric with the labels and values of its samples, or "" if there are none.
std::string metric(const std::string& name, const std::string& help,
                   const std::vector<std::pair<std::string, double>>& samples) {
  if (samples.empty()) return "";
  std::string text = "# HELP slipstream_" + name + " " + help + "\n# TYPE slipstream_" + name +
                     (name.ends_with("_total") ? " counter\n" : " gauge\n");
  for (const auto& [labels, value] : samples)
    text.append("slipstream_")
        .append(name)
        .append("{")
        .append(labels)
        .append("} ")
        .append(number_text(value) + "\n");
  return text;
}

}  // namespace

std::string watch_json(const WatchWindow& window) {
  Json host = Json::array();
  for (std::size_t i = 0; i < window.host.size(); ++i) {
    const StepCounter& step = window.host[i];
    const auto calls = static_cast<double>(step.calls);
    host.push_back({{"name", step.name},
                    {"group", to_string(host_step_group(i, window.host.size()))},
                    {"samples", step.calls},
                    {"wall_ms", number(1e3 * step.wall_s / calls)},
                    {"cpu_ms", number(1e3 * step.cpu_s / calls)}});
  }
  const auto rate = [&](double value) { return window.has_rates() ? number(value) : Json(); };
  const auto known = [](const std::optional<double>& value) {
    return value ? number(*value) : Json();
  };
  const Json line = {{"schema", "slipstream.watch"},
                     {"version", 1},
                     {"step", window.step},
                     {"elapsed_s", number(window.elapsed_s)},
                     {"steps", window.steps},
                     {"window_s", number(window.seconds)},
                     {"steps_per_second", rate(static_cast<double>(window.steps) / window.seconds)},
                     {"input_wait_share", rate(window.input_wait_share())},
                     {"batches_ready", known(window.batches_ready)},
                     {"workers_busy", known(window.workers_busy)},
                     {"state", window.state},
                     {"event", words_or_null(std::string(window.event))},
                     {"message", words_or_null(window.message)},
                     {"host_steps", std::move(host)}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string watch_prometheus(const WatchTotals& totals, const WatchWindow* window,
                             std::string_view run) {
  const std::string run_label = label("run", run);
  std::string text;
  const auto add = [&](const char* name, const char* help, double value) {
    text += metric(name, help, {{run_label, value}});
  };
  const auto add_host_steps = [&](const char* name, const char* help, const auto& value) {
    std::vector<std::pair<std::string, double>> samples;
    for (const StepCounter& step : totals.host)
      samples.emplace_back(run_label + "," + label("step", step.name), value(step));
    text += metric(name, help, samples);
  };
  add("steps_total", "Training steps done.", static_cast<double>(totals.steps));
  add("run_seconds_total", "Time that training has taken.", totals.seconds);
  add("input_wait_seconds_total", "Time that the device has waited for input.", totals.waited_s);
  add("starved_seconds_total", "Time in which the run starved.", totals.starved_s);
  add("starvations_total", "Number of times that the run began to starve.",
      static_cast<double>(totals.starvations));
  if (window != nullptr)
    add("starving", "1 while the run starves, else 0; absent after the run has ended.",
        window->state == "starving" ? 1 : 0);
  if (window != nullptr && window->batches_ready)
    add("batches_ready", "Prefetched batches, mean over the last window.", *window->batches_ready);
  add_host_steps("host_step_seconds_total", "Time in a host step, all threads.",
                 [](const StepCounter& step) { return step.wall_s; });
  add_host_steps("host_step_cpu_seconds_total", "CPU time in a host step, all threads.",
                 [](const StepCounter& step) { return step.cpu_s; });
  add_host_steps("host_step_samples_total", "Samples processed by a host step.",
                 [](const StepCounter& step) { return static_cast<double>(step.calls); });
  return text;
}

RunWatch::RunWatch(const fs::path& json, const fs::path& prometheus, ProgressLine& line)
    : json_(json),
      prometheus_(prometheus),
      run_(prometheus.stem().string()),
      line_(line),
      writes_prometheus_(!prometheus.empty()) {
  if (!writes_prometheus_) return;
  std::error_code failed;
  const fs::file_status status = fs::status(prometheus, failed);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
    throw Refused("cannot replace " + prometheus.string() +
                  ": it is not a regular file; name a file that Prometheus' collector reads");
  check_writable(prometheus);
}

void RunWatch::update(const Progress& progress) {
  if (!watch_) return;
  if (const WatchWindow* window = watch_->update(progress)) write(window);
}

void RunWatch::finish() {
  if (!watch_) return;
  if (const WatchWindow* window = watch_->finish()) write(window);
  if (watch_->totals().steps > 0) write(nullptr);
}

void RunWatch::write(const WatchWindow* window) {
  const auto attempt = [&](bool& writes, const auto& write_file) {
    try {
      if (writes) write_file();
    } catch (const Error& error) {
      writes = false;
      line_.print("warning: " + std::string(error.what()) +
                  "; training continues without that file");
    }
  };
  if (window != nullptr) line_.print(window->message);
  if (window != nullptr) attempt(writes_json_, [&] { json_.write(watch_json(*window)); });
  attempt(writes_prometheus_, [&] {
    write_file_atomically(prometheus_, watch_prometheus(watch_->totals(), window, run_));
  });
}

std::string RunWatch::summary() const {
  if (!watch_) return "";
  const WatchTotals& totals = watch_->totals();
  std::string text = "watch: ";
  if (totals.starvations > 0)
    text += "starved " + format_count(totals.starvations, "time") + ", " +
            fixed(totals.starved_s, 1) + " s";
  else
    text += totals.judged_s > 0 ? "never starved" : "the run was too short to judge";
  return text + "; the device waited for input " + fixed(totals.waited_s, 1) + " s of " +
         fixed(totals.seconds, 1) + " s\n";
}

}  // namespace slipstream
