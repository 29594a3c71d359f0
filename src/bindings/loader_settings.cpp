#include "bindings/loader_settings.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/contexts.h"
#include "bindings/file_name.h"
#include "bindings/gil.h"
#include "bindings/interrupts.h"
#include "bindings/native_loader.h"
#include "bindings/process_dataset.h"
#include "bindings/transform_chain.h"
#include "bindings/workers.h"
#include "core/number_text.h"
#include "engine/placement.h"
#include "loader/batch_queue.h"
#include "slipstream/datasets/disk_cache.h"
#include "training/loading_options.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// The arguments of slipstream.DataLoader.
struct LoaderSettings : DataLoaderOptions {
  std::string device;
  std::shared_ptr<TransformChain> transforms;
  bool transforms_on_device = false;
  bool lists_batches = false;  ///< whether a sampler lists the batches of each epoch
  std::string pins_for = {};   ///< GPU for which batches on the CPU are page-locked; "": none
  double timeout_s = 0;
  std::int64_t num_classes = 0;  ///< argument of an operation on whole batches; 0: none
  std::shared_ptr<WorkerPool> pool = nullptr;
  std::vector<std::tuple<std::size_t, std::string, bool>> python_steps = {};  ///< for make_chain()
  std::vector<SampleForm::Leaf> leaves = {};
  std::optional<py::object> build = std::nullopt;
};

std::vector<NamedOp> make_chain(const LoaderSettings& settings) {
  std::vector<NamedOp> chain = settings.transforms->ops();
  std::uint64_t step = 0;
  for (const auto& [place, name, keeps_sizes] : settings.python_steps)
    chain.insert(chain.begin() + static_cast<std::ptrdiff_t>(place),
                 {name, PythonOp{settings.pool, step++, keeps_sizes}});
  return chain;
}

void check_classes(const Dataset& dataset, const BatchOps& ops, std::int64_t told) {
  if (ops.empty()) return;
  const std::string name(ops.name());
  for (const FieldSpec& field : dataset.fields()) {
    if (field.kind != FieldKind::label) continue;
    if (field.classes <= 0)
      throw Refused(name +
                    " converts labels to batch x classes, but the data set does not report how " +
                    "many classes there are: open it with num_classes=N");
    if (told > 0 && field.classes != told)
      throw Refused("num_classes of " + name + " is " + std::to_string(told) +
                    ", but the data set has " + std::to_string(field.classes) +
                    " classes: leave num_classes out, or open the data set with the same number");
  }
}

/// Determines the forms of fields from the first sample that can be read.
void learn_first_forms(Dataset& dataset, const std::vector<NamedOp>& chain,
                       const DataLoaderOptions& options) {
  constexpr std::size_t kMostTries = 100;
  for (std::size_t sample = 0;; ++sample) {
    try {
      return learn_forms(dataset, chain, {.seed = options.seed, .sample = sample});
    } catch (const UnfitSample&) {
      const bool skips = options.on_bad_sample == OnBadSample::skip;
      if (!skips || sample + 1 >= dataset.size() || sample + 1 == kMostTries) throw;
    }
  }
}

std::shared_ptr<NativeLoader> make_native_loader(const std::shared_ptr<Dataset>& dataset,
                                                 const LoaderSettings& settings) {
  std::vector<NamedOp> chain = make_chain(settings);
  DataLoaderOptions options = settings;
  options.batch_ops = take_batch_ops(chain);
  check_classes(*dataset, options.batch_ops, settings.num_classes);
  if (settings.lists_batches) options.batches = std::make_shared<BatchQueue>();
  std::shared_ptr<Context> context = get_context(settings.device);
  DeliveryOptions delivery;
  delivery.timeout_s = settings.timeout_s;
  if (!settings.pins_for.empty()) delivery.pins_for = get_context(settings.pins_for);
  std::shared_ptr<const SampleForm> form;
  if (settings.build) form = std::make_shared<SampleForm>(settings.leaves, *settings.build);
  const SignalWaitScope seen(settings.pool.get());
  const GilRelease unlocked;
  if (settings.pool) learn_first_forms(*dataset, chain, options);
  if (settings.transforms_on_device)
    options.on_device = transforms_on_device(*dataset, chain, options);
  return std::make_shared<NativeLoader>(std::move(context), dataset, std::move(chain),
                                        std::move(options), settings.pool, std::move(form),
                                        std::move(delivery));
}

/// Returns the smallest number of workers with which the loader of `settings` is about as fast as
/// with any other number. Neither the data set nor a transform is in Python.
unsigned measure_workers(const std::shared_ptr<Dataset>& dataset, const LoaderSettings& settings,
                         unsigned prefetch_factor) {
  std::vector<NamedOp> chain = settings.transforms->ops();
  DataLoaderOptions options = settings;
  options.batch_ops = take_batch_ops(chain);
  // The batches of a sampler may be larger than the data set.
  options.batch_size = std::min(options.batch_size, dataset->size());
  const GilRelease unlocked;
  if (settings.transforms_on_device)
    options.on_device = transforms_on_device(*dataset, chain, options);
  const auto stop = [check_signals = SignalPoll()]() mutable {
    check_signals();
    return false;
  };
  return enough_workers(dataset, chain, options, prefetch_factor, stop);
}

py::object describe_cache(const NativeLoader& loader) {
  const std::optional<CacheCounters> cache = loader.cache();
  if (!cache) return py::none();
  return py::dict(py::arg("samples") = cache->samples, py::arg("bytes") = cache->bytes,
                  py::arg("hits") = cache->hits, py::arg("misses") = cache->misses,
                  py::arg("is_filling") = cache->is_filling);
}

py::object describe_disk_cache(const NativeLoader& loader) {
  const std::optional<DiskCacheState> cache = disk_cache_state(*loader.dataset());
  if (!cache) return py::none();
  return py::dict(py::arg("hits") = cache->hits, py::arg("misses") = cache->misses,
                  py::arg("stored") = cache->stored, py::arg("bytes") = cache->bytes,
                  py::arg("stop_reason") = file_name(cache->stop_reason));
}

std::vector<std::tuple<py::str, py::str>> list_skipped(NativeLoader& loader) {
  SkippedSamples skipped;
  {
    const GilRelease unlocked;
    skipped = loader.skipped();
  }
  std::vector<std::tuple<py::str, py::str>> all;
  for (const SkippedSample& each : skipped.samples)
    all.emplace_back(file_name(loader.dataset()->name(each.sample)), file_name(each.message));
  return all;
}

void add_loading_options(py::class_<LoaderSettings>& settings_class) {
  settings_class
      .def_property(
          "scaled_decoding", [](const LoaderSettings& settings) { return settings.decode.scaled; },
          [](LoaderSettings& settings, bool scaled) { settings.decode.scaled = scaled; })
      .def_property(
          "read_ahead", [](const LoaderSettings& settings) { return settings.read_ahead.reads; },
          [](LoaderSettings& settings, unsigned reads) { settings.read_ahead.reads = reads; })
      .def_readwrite("cpus", &LoaderSettings::cpus)
      .def("set_cache", [](LoaderSettings& settings, const std::string& text) {
        settings.cache = parse_cache("cache", text);
      });
}

void add_settings(py::module_& module) {
  using Wires = std::map<std::string, std::string>;
  py::class_<LoaderSettings> settings_class(module, "LoaderSettings");
  add_loading_options(settings_class);
  settings_class.def(py::init<>())
      .def_readwrite("device", &LoaderSettings::device)
      .def_readwrite("transforms", &LoaderSettings::transforms)
      .def_readwrite("batch_size", &LoaderSettings::batch_size)
      .def_readwrite("prefetch_batches", &LoaderSettings::prefetch_batches)
      .def_readwrite("num_workers", &LoaderSettings::num_workers)
      .def_readwrite("shuffle", &LoaderSettings::shuffle)
      .def_readwrite("drop_last", &LoaderSettings::drop_last)
      .def_readwrite("seed", &LoaderSettings::seed)
      .def_property(
          "skips_bad_samples",
          [](const LoaderSettings& settings) {
            return settings.on_bad_sample == OnBadSample::skip;
          },
          [](LoaderSettings& settings, bool skips) {
            settings.on_bad_sample = skips ? OnBadSample::skip : OnBadSample::stop;
          })
      .def_property(
          "strict_decoding", [](const LoaderSettings& settings) { return settings.decode.strict; },
          [](LoaderSettings& settings, bool strict) { settings.decode.strict = strict; })
      .def_property(
          "rank",
          [](const LoaderSettings& settings) {
            return std::pair(settings.rank.index, settings.rank.count);
          },
          [](LoaderSettings& settings, const std::pair<std::size_t, std::size_t>& rank) {
            settings.rank = {rank.first, rank.second};
          })
      .def_property(
          "wire",
          [](const LoaderSettings& settings) {
            Wires wires;
            for (const auto& [field, wire] : settings.wire) wires[field] = to_string(wire);
            return wires;
          },
          [](LoaderSettings& settings, const Wires& wires) {
            settings.wire.clear();
            for (const auto& [field, name] : wires) settings.wire[field] = wire_named(name);
          })
      .def_readwrite("lists_batches", &LoaderSettings::lists_batches)
      .def_readwrite("pins_for", &LoaderSettings::pins_for)
      .def_readwrite("timeout_s", &LoaderSettings::timeout_s)
      .def_readwrite("transforms_on_device", &LoaderSettings::transforms_on_device)
      .def_readwrite("num_classes", &LoaderSettings::num_classes)
      .def_readwrite("pool", &LoaderSettings::pool)
      .def_readwrite("python_steps", &LoaderSettings::python_steps)
      .def_readwrite("leaves", &LoaderSettings::leaves)
      .def_readwrite("build", &LoaderSettings::build);
}

/// Functions for the values of arguments of slipstream.DataLoader.
void add_values(py::module_& module) {
  module.def("named_size", [](const std::string& option, const std::string& text) {
    return named_size(option, text).second;
  });
  module.def("loader_cpus", [](const std::string& text, const std::string& device) {
    const std::shared_ptr<Context> context = get_context(device);
    CpuList cpus = parse_loader_cpus("cpus", text, *context);
    std::vector<std::string> problems;
    check_cpus(cpus, problems);
    refuse(problems);
    return cpus;
  });
  module.def("disk_cached", [](const std::shared_ptr<Dataset>& dataset, const std::string& text) {
    const GilRelease unlocked;
    // pybind11 has no pointers to const objects. The data set is not changed.
    return std::const_pointer_cast<Dataset>(with_disk_cache("disk_cache", dataset, text));
  });
  module.def("measure_workers", &measure_workers);
}

}  // namespace

void add_loader(py::module_& module) {
  add_settings(module);
  add_values(module);
  py::class_<NativeLoader, std::shared_ptr<NativeLoader>>(module, "Loader")
      .def(py::init(&make_native_loader))
      .def("batches_per_epoch", &NativeLoader::batches_per_epoch)
      .def("skipped", &list_skipped)
      .def("cache", &describe_cache)
      .def("disk_cache", &describe_disk_cache)
      .def("halt", &NativeLoader::halt, py::call_guard<GilRelease>())
      .def("configure", &NativeLoader::configure, py::call_guard<GilRelease>())
      .def("copy", &NativeLoader::copy, py::call_guard<GilRelease>())
      .def("add_skipped",
           [](NativeLoader& loader, NativeLoader& other) {
             const GilRelease unlocked;
             loader.add_skipped(other.skipped());
           })
      .def("seek", &NativeLoader::seek, py::call_guard<GilRelease>())
      .def("passes", &NativeLoader::passes)
      .def("begin_epoch", &NativeLoader::begin_epoch, py::call_guard<GilRelease>())
      .def("add_batch", &NativeLoader::add_batch, py::call_guard<GilRelease>())
      .def("end_epoch", &NativeLoader::end_epoch, py::call_guard<GilRelease>())
      .def_property("wants_thread", &NativeLoader::wants_thread, &NativeLoader::want_thread);
}

}  // namespace slipstream
