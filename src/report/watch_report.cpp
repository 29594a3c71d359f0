#include "report/watch_report.h"

#include <array>
#include <charconv>
#include <system_error>

#include "report/json.h"
#include "report/watch_cause.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

Json optional_number(const std::optional<double>& value) {
  return value ? number(*value) : Json(nullptr);
}

Json json_of(const WatchCause& cause) {
  return {{"group", name_of(cause.group)},
          {"step", words_or_null(cause.step)},
          {"share", number(cause.share)},
          {"cpu_share", number(cause.cpu_share)},
          {"growth", optional_number(cause.growth)}};
}

Json json_of(const StepCounter& step, const WatchWindow& window) {
  const auto calls = static_cast<double>(step.calls);
  return {{"name", step.name},
          {"group", name_of(group_of(step.name))},
          {"samples", step.calls},
          {"samples_per_second", number(window.samples_per_second(step))},
          {"wall_ms", number(1e3 * step.wall_s / calls)},
          {"cpu_ms", number(1e3 * step.cpu_s / calls)}};
}

std::string text_of(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), end.ptr};
}

/// Valid UTF-8, as the format asks for.
std::string label_value(std::string_view text) {
  std::string value;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') value += '\\';
    if (c == '\n')
      value += "\\n";
    else
      value += c;
  }
  return value;
}

class Metrics {
 public:
  explicit Metrics(std::string_view run) : labels_("run=\"" + label_value(run) + "\"") {}

  void begin(const std::string& name, const std::string& type, const std::string& help) {
    name_ = "slipstream_" + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void value(double value) { text_ += name_ + "{" + labels_ + "} " + text_of(value) + "\n"; }
  void value(const std::string& step, double value) {
    text_ +=
        name_ + "{" + labels_ + ",step=\"" + label_value(step) + "\"} " + text_of(value) + "\n";
  }
  void counter(const std::string& name, const std::string& help, double counted) {
    begin(name, "counter", help);
    value(counted);
  }
  std::string text() { return std::move(text_); }

 private:
  std::string labels_, name_, text_;
};

/// Throws Refused for what renaming cannot replace.
void check_replaceable(const fs::path& file) {
  std::error_code failed;
  const fs::file_status status = fs::status(file, failed);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
    throw Refused("cannot replace " + file.string() +
                  ": it is not a file; name one that Prometheus' collector reads");
}

}  // namespace

std::string watch_json(const WatchWindow& window) {
  Json host = Json::array();
  for (const StepCounter& step : window.host) host.push_back(json_of(step, window));
  const std::string event(name_of(window.event));
  const Json line = {{"schema", "slipstream.watch"},
                     {"version", 1},
                     {"step", window.step},
                     {"elapsed_s", number(window.elapsed_s)},
                     {"steps", window.steps},
                     {"window_s", number(window.seconds)},
                     {"steps_per_second", number(window.steps_per_second())},
                     {"input_wait_share", number(window.input_wait_share())},
                     {"batches_ready", optional_number(window.batches_ready)},
                     {"workers_busy", optional_number(window.workers_busy)},
                     {"state", name_of(window.state)},
                     {"event", words_or_null(event)},
                     {"message", words_or_null(window.message)},
                     {"cause", window.cause ? json_of(*window.cause) : Json(nullptr)},
                     {"host_steps", std::move(host)}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string watch_prometheus(const WatchTotals& totals, const WatchWindow* window,
                             std::string_view run) {
  Metrics metrics(run);
  metrics.counter("steps_total", "Training steps done.", static_cast<double>(totals.steps));
  metrics.counter("run_seconds_total", "Time that training has taken.", totals.seconds);
  metrics.counter("input_wait_seconds_total", "Time that the device has waited for input.",
                  totals.waited_s);
  metrics.counter("starved_seconds_total", "Time in which the run starved.", totals.starved_s);
  metrics.counter("starvations_total", "How often the run began to starve.",
                  static_cast<double>(totals.starvations));
  if (window != nullptr) {
    metrics.begin("starving", "gauge", "1 while the run starves, else 0; gone when it is over.");
    metrics.value(window->state == WatchState::starving ? 1 : 0);
  }
  if (window != nullptr && window->batches_ready) {
    metrics.begin("batches_ready", "gauge", "Batches filled ahead, mean over the last window.");
    metrics.value(*window->batches_ready);
  }
  if (totals.host.empty()) return metrics.text();
  metrics.begin("host_step_seconds_total", "counter", "Time in a host step, all threads.");
  for (const StepCounter& step : totals.host) metrics.value(step.name, step.wall_s);
  metrics.begin("host_step_cpu_seconds_total", "counter", "CPU time in a host step, all threads.");
  for (const StepCounter& step : totals.host) metrics.value(step.name, step.cpu_s);
  metrics.begin("host_step_samples_total", "counter", "Samples that went through a host step.");
  for (const StepCounter& step : totals.host)
    metrics.value(step.name, static_cast<double>(step.calls));
  return metrics.text();
}

WatchFiles::WatchFiles(const fs::path& json, const fs::path& prometheus)
    : json_(json),
      prometheus_(prometheus),
      run_(prometheus.stem().string()),
      writes_json_(!json.empty()),
      writes_prometheus_(!prometheus.empty()) {
  if (!writes_prometheus_) return;
  check_replaceable(prometheus);
  check_writable(prometheus);
  if (fs::path place = place_of(prometheus); !place.empty()) prometheus_ = std::move(place);
}

std::string WatchFiles::attempt(bool& writes, const std::function<void()>& write) {
  if (!writes) return {};
  try {
    write();
    return {};
  } catch (const Error& error) {
    writes = false;
    return std::string(error.what()) + "; training goes on without that file";
  }
}

std::string WatchFiles::write_prometheus(const WatchTotals& totals, const WatchWindow* window) {
  return attempt(writes_prometheus_, [&] {
    write_file_atomically(prometheus_, watch_prometheus(totals, window, run_));
  });
}

std::string WatchFiles::write(const WatchWindow& window, const WatchTotals& totals) {
  const std::string problem = attempt(writes_json_, [&] { json_.write(watch_json(window)); });
  const std::string another = write_prometheus(totals, &window);
  return problem.empty() || another.empty() ? problem + another : problem + "\n" + another;
}

std::string WatchFiles::end(const WatchTotals& totals) { return write_prometheus(totals, nullptr); }

}  // namespace slipstream
