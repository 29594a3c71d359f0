#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "cli/common_options.h"
#include "core/files.h"
#include "core/number_text.h"
#include "datasets/folders.h"
#include "loader/loader_bench.h"
#include "loader/plan_limits.h"
#include "slipstream/engine/pipeline.h"
#include "training/loading_options.h"

namespace slipstream {
namespace {

constexpr unsigned kMostDefaultWorkers = 8;

void print_some(const char* verb, const char* what, const std::vector<SkippedSample>& samples) {
  if (samples.empty()) return;
  std::cout << verb << " " << format_count(samples.size(), what)
            << (samples.size() == 1 ? ": " : ", the first: ")
            << printable_name(samples.front().message) << "\n";
}

unsigned cores() { return usable_cores(); }

/// Parses a value that the parser has already checked.
unsigned parse_num_workers(const std::string& num_workers) {
  return static_cast<unsigned>(number_in(num_workers).value());
}

/// Whether `text` begins with an integer that is too large for every type. The parser would
/// silently use the largest one.
bool is_too_large(const std::string& text) {
  errno = 0;
  static_cast<void>(std::strtoull(text.c_str(), nullptr, 0));
  return errno == ERANGE;
}

std::string to_text(const Rgb& color) {
  if (color == Rgb{0, 0, 0}) return "black";
  if (color == Rgb{255, 255, 255}) return "white";
  std::ostringstream text;
  text << '#' << std::hex << std::setfill('0');
  for (const unsigned level : color) text << std::setw(2) << level;
  return text.str();
}

}  // namespace

Check at_least(int least) {
  return [least](const std::string& text) {
    if (number_in(text).value_or(least) < least)
      return text + " is less than " + std::to_string(least);
    return is_too_large(text) ? text + " is too large" : "";
  };
}

std::string workers_problem(const std::string& text) {
  const double number = number_in(text).value_or(0);
  const bool is_count = number >= 1 && number == std::floor(number) && number <= kMostOfAnything;
  return is_count ? "" : text + " is not a number from 1 to " + std::to_string(kMostOfAnything);
}

std::string above_zero(const std::string& text) {
  const double value = number_in(text).value_or(1);
  return value > 0 && std::isfinite(value) ? "" : text + " is not above 0 and finite";
}

void print_remarks(const Dataset& dataset) {
  for (const std::string& remark : dataset.remarks())
    std::cerr << "warning: " << printable_name(remark) << "\n";
}

void add_on_bad_sample(CLI::App& verb, OnBadSample& chosen, const std::string& skip) {
  verb.add_option_function<std::string>(
          "--on-bad-sample",
          [&chosen](const std::string& what) {
            chosen = what == "skip" ? OnBadSample::skip : OnBadSample::stop;
          },
          "What to do with a bad sample: stop, or skip (" + skip + ")")
      ->check([](const std::string& what) {
        return what == "stop" || what == "skip" ? ""
                                                : unknown_name("choice", what, {"stop", "skip"});
      })
      ->default_str("stop")
      ->group(kDataGroup);
}

void add_background(CLI::App& verb, Rgb& chosen, const std::string& help) {
  verb.add_option_function<std::string>(
          "--background",
          [&chosen](const std::string& text) {
            try {
              chosen = color_named(text);
            } catch (const Refused& refused) {
              throw Refused("--background: " + std::string(refused.what()));
            }
          },
          help + ": black, white or #rrggbb")
      ->default_str(to_text(chosen))
      ->group(kDataGroup);
}

void set_loading(LoadingOptions& options, std::optional<unsigned> read_ahead,
                 const std::string& cache) {
  if (read_ahead) options.read_ahead.reads = *read_ahead;
  if (!cache.empty()) options.cache = parse_cache("--cache", cache);
}

void print_skipped(const std::vector<SkippedSample>& skipped) {
  print_some("skipped", "bad sample", skipped);
}

void print_skipped(const SkippedSamples& skipped) {
  print_skipped(skipped.samples);
  print_some("tolerated", "damaged sample", skipped.tolerated);
}

std::string transforms_device_problem(const std::string& name) {
  try {
    check_transforms_device(name, DeviceKind::cuda);
    return "";
  } catch (const Refused& refused) {
    return refused.what();
  }
}

void write_all(std::initializer_list<std::pair<OutputFile*, std::string>> outputs) {
  std::cout << std::flush;
  std::string problems;
  for (const auto& [file, text] : outputs) try {
      file->write(text);
    } catch (const Error& error) {
      problems += (problems.empty() ? "" : "\n") + std::string(error.what());
    }
  if (!problems.empty()) throw Error(problems);
}

void require_name_of_sheet(const std::pair<std::string, std::string>& sheet) {
  const std::string extension = lower_extension(sheet.second);
  if (extension.empty() || extension == ".png" || extension == ".html") return;
  throw Refused(sheet.first + " " + sheet.second +
                ": images are written as a PNG or as a page; give a name that ends in .png or, for "
                "images with captions, in .html");
}

unsigned CommonOptions::enough_workers(const Pipeline& pipeline, const Plan& plan) const {
  const unsigned workers =
      slipstream::enough_workers(pipeline.dataset(), pipeline.transforms(),
                                 pipeline.loader_options(plan), prefetch_factor, cli_->interrupted);
  cli_->check_interrupt();
  return workers;
}

void CommonOptions::set_prefetch(LoaderPlan& loader) const {
  if (prefetch_factor)
    loader.prefetch_batches = prefetched_by(*prefetch_factor, loader.num_workers);
}

LoaderPlan CommonOptions::loader(const Context& context, const std::string& transforms_device,
                                 const std::function<Pipeline()>& make) const {
  check_transforms_device(transforms_device, context.kind());
  Plan plan;
  change(plan, context);
  LoaderPlan& loader = plan.schedule.loader;
  if (num_workers == "auto") {
    const Pipeline pipeline = make();
    loader.num_workers = enough_workers(
        pipeline,
        placed_plan(pipeline, "serial", transforms_device, context.kind(), loader, plan.numerics));
  } else if (num_workers.empty()) {
    loader.num_workers = defaults.num_workers.value_or(std::min(kMostDefaultWorkers, cores()));
  } else {
    loader.num_workers = parse_num_workers(num_workers);
  }
  set_prefetch(loader);
  return loader;
}

void CommonOptions::adapt(Plan& plan, const Pipeline& pipeline, const Context& context) const {
  validate(plan, pipeline.device_steps(plan.schedule.loader.on_device), context.kind());
  LoaderPlan& loader = plan.schedule.loader;
  if (!num_workers.empty())
    loader.num_workers =
        num_workers == "auto" ? enough_workers(pipeline, plan) : parse_num_workers(num_workers);
  set_prefetch(loader);
}

void CommonOptions::change(Plan& plan, const Context& context) const {
  set_wire(plan);
  plan.numerics.scaled_decoding |= scaled_decoding;
  LoaderPlan& loader = plan.schedule.loader;
  if (!cpus.empty()) loader.cpus = parse_loader_cpus("--cpus", cpus, context);
  set_loading(loader, read_ahead, cache);
}

Plan CommonOptions::build_plan(const std::string& plan, const std::string& transforms_device,
                               const Pipeline& pipeline, const Context& context) const {
  if (is_plan_mode(plan)) {
    const LoaderPlan used = loader(context, transforms_device, [&] { return pipeline; });
    return placed_plan(pipeline, plan, transforms_device, context.kind(), used,
                       numerics(context.kind()));
  }
  Plan file = plan_file(plan, context);
  adapt(file, pipeline, context);
  return file;
}

Plan CommonOptions::plan_file(const std::string& path, const Context& context,
                              const std::vector<std::string>& others) const {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed))
    throw Refused(unknown_plan(path, others) +
                  "; and there is no such file: give one of these names, or a file that --plan-out "
                  "wrote");
  if (given_transforms_device_)
    throw Refused("--transforms-device has no effect on the plan in " + path +
                  ", which determines where transforms run: leave it out");
  const std::string text = read_given_text(path, kMostWrittenBytes);
  Plan plan;
  try {
    plan = parse_plan(text);
  } catch (const Error& error) {
    throw Refused("'" + path + "': " + error.what());
  }
  if (given_precision) plan.numerics.precision = precision_named(precision);
  change(plan, context);
  if (deterministic || context.kind() == DeviceKind::cpu) {
    plan.numerics.deterministic = true;
    plan.numerics.cudnn_benchmark = false;
  }
  return plan;
}

void CommonOptions::set_wire(Plan& plan) const {
  for (const std::string& each : wire) {
    const std::size_t equals = each.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw Refused("--wire " + each + ": give FIELD=FORMAT, for example mask=bits");
    const std::string field = each.substr(0, equals);
    const Wire format = wire_named(each.substr(equals + 1));
    plan.schedule.loader.wire.erase(field);
    plan.numerics.wire.erase(field);
    (is_exact(format) ? plan.schedule.loader.wire : plan.numerics.wire)[field] = format;
  }
}

Plan::Numerics CommonOptions::numerics(DeviceKind kind) const {
  Plan plan;
  set_wire(plan);
  Plan::Numerics& numerics = plan.numerics;
  numerics.precision = precision_named(precision);
  numerics.deterministic = deterministic;
  numerics.scaled_decoding = scaled_decoding;
  numerics.cudnn_benchmark = !deterministic;
  if (kind == DeviceKind::cpu)
    numerics.intra_op_threads = {
        {"*", std::min(static_cast<unsigned>(kMostIntraOpThreads), cores())}};
  return make_plan("serial", {"copy", "train"}, kind, {}, numerics).numerics;
}

}  // namespace slipstream
