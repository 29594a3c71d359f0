#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <utility>

#include "bindings/contexts.h"
#include "bindings/doctor.h"
#include "bindings/epoch_order.h"
#include "bindings/examined_loader.h"
#include "bindings/file_name.h"
#include "bindings/gil.h"
#include "bindings/interrupts.h"
#include "bindings/loader_settings.h"
#include "bindings/loop_meter.h"
#include "bindings/native_classes.h"
#include "bindings/native_features.h"
#include "bindings/native_feed.h"
#include "bindings/native_loader.h"
#include "bindings/one_sample.h"
#include "bindings/process_dataset.h"
#include "bindings/python_feed.h"
#include "bindings/python_loop.h"
#include "bindings/staged_loop.h"
#include "bindings/trainer.h"
#include "bindings/transform_chain.h"
#include "bindings/tree.h"
#include "bindings/workers.h"
#include "core/number_text.h"
#include "datasets/scan_watch.h"
#include "engine/auto_choice.h"
#include "engine/copy_values.h"
#include "slipstream/cli/cli.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

namespace py = pybind11;
using DatasetPtr = std::shared_ptr<Dataset>;

DatasetPtr as_python_has_it(const std::shared_ptr<const Dataset>& dataset) {
  return std::const_pointer_cast<Dataset>(dataset);  // its functions are all const
}

/// Calls `open` without the GIL and returns its result. Ctrl-C ends it.
template <typename Open>
DatasetPtr opened(const Open& open) {
  const GilRelease unlocked;
  const ScanWatch watch{SignalPoll()};
  return as_python_has_it(open());
}

/// A StagedLoop that refuses a call while another thread requests a batch.
class Loop {
 public:
  Loop(const py::object& source, const py::object& ready, std::vector<LoopStage> stages,
       const std::string& device, std::uint64_t first, std::uint64_t limit, std::size_t run_ahead,
       const py::list& kept) {
    const std::shared_ptr<Context> context = get_context(device);
    std::shared_ptr<Feed> feed;
    if (py::isinstance<NativeLoader>(source))
      feed = std::make_shared<NativeFeed>(source.cast<std::shared_ptr<NativeLoader>>());
    else
      feed = std::make_shared<PythonFeed>(kept_in(kept, source), kept_in(kept, ready),
                                          context->device());
    loop_ = std::make_unique<StagedLoop>(std::move(feed), std::move(stages), context, first, limit,
                                         run_ahead);
  }

  py::object next() {
    if (std::exchange(is_busy_, true)) throw py::value_error("this iterator is already executing");
    try {
      std::optional<py::object> batch = loop_->next();
      if (!batch) throw py::stop_iteration();
      is_busy_ = false;
      return std::move(*batch);
    } catch (...) {
      is_busy_ = false;
      throw;
    }
  }
  void close() {
    if (!is_busy_) loop_->close();
  }
  std::string failed() const { return loop_->failed(); }
  std::uint64_t given() const { return loop_->given(); }
  std::pair<double, double> loader_times() {
    return {loop_->taking().wall_s, loop_->taking().cpu_s};
  }
  std::uint64_t lost() const { return loop_->has_failed() ? 0 : loop_->taken() - loop_->given(); }
  int traverse(visitproc visit, void* arg) const {
    return loop_ == nullptr ? 0 : loop_->traverse(visit, arg);
  }

 private:
  std::unique_ptr<StagedLoop> loop_;
  bool is_busy_ = false;  ///< guarded by the GIL
};

/// Replaces the command line's names of options in a message by those of Python.
std::string in_python(std::string message) {
  for (const auto& [option, name] :
       {std::pair("--transforms-device cpu", "transforms_device='cpu'"),
        std::pair("--device cpu", "device='cpu'"), std::pair("--num-workers", "num_workers"),
        std::pair("--prefetch-factor", "prefetch_factor")})
    for (std::size_t at = 0; (at = message.find(option, at)) != std::string::npos;)
      message.replace(at, std::strlen(option), name);
  return message;
}

py::list file_names(const std::vector<std::string>& names) {
  py::list all;
  for (const std::string& name : names) all.append(file_name(name));
  return all;
}

void raise(py::handle type, std::string_view what) {
  // PyErr_SetString() would fail for a message with a file name that is not UTF-8.
  const auto message = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(what.data(), static_cast<Py_ssize_t>(what.size()), "backslashreplace"));
  if (message) PyErr_SetObject(type.ptr(), message.ptr());
}

template <typename Thrown>
py::handle add_error(py::module_& module, const char* name, py::handle base, const char* doc) {
  py::object error = py::exception<Thrown>(module, name, base);
  error.doc() = doc;
  return error.release();
}

void add_errors(py::module_& module) {
  static const py::handle error = add_error<Error>(
      module, "Error", PyExc_RuntimeError,
      "Raised on a failure. The message describes what failed, where, and what to do.");
  const py::tuple bases = py::make_tuple(error, py::handle(PyExc_ValueError));
  static const py::handle refused = add_error<Refused>(
      module, "Refused", bases,
      "Raised for arguments that are not valid. They are checked before any sample is read.");
  static const py::handle unfit = add_error<UnfitSample>(
      module, "UnfitSample", error,
      "Raised for a sample that cannot be read or does not fit a transform.");
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Refused& what) {
      raise(refused, in_python(what.what()));
    } catch (const UnfitSample& what) {
      raise(unfit, what.what());
    } catch (const Error& what) {
      raise(error, in_python(what.what()));
    }
  });
}

void require_sample(const Dataset& dataset, std::size_t index) {
  if (index >= dataset.size())
    throw py::index_error("sample " + std::to_string(index) + ": the data set has " +
                          format_count(dataset.size(), "sample"));
}

DatasetPtr open_image_folder(const std::string& path, std::vector<std::string> classes,
                             std::vector<std::string> extensions, const py::object& is_valid_file,
                             bool allow_empty) {
  ImageFolderOptions options{.classes = std::move(classes),
                             .extensions = std::move(extensions),
                             .allow_empty = allow_empty};
  if (!is_valid_file.is_none())
    options.is_valid_file = [&](const std::filesystem::path& file) {
      const GilAcquire locked;
      const py::bool_ is_valid(
          call_python(is_valid_file, py::make_tuple(file_name(file.string()))));
      return static_cast<bool>(is_valid);
    };
  return opened([&] { return image_folder(path, options); });
}

DatasetPtr make_labeled_images(std::vector<std::string> classes, std::vector<std::string> paths,
                               const std::vector<std::int64_t>& labels) {
  std::vector<LabeledFile> files;
  for (std::size_t i = 0; i < paths.size(); ++i)
    files.push_back({std::move(paths[i]), labels.at(i)});
  return as_python_has_it(labeled_images(std::move(classes), std::move(files)));
}

void add_datasets(py::module_& module) {
  py::class_<Dataset, DatasetPtr>(module, "Dataset")
      .def("__len__", &Dataset::size)
      .def("name",
           [](const Dataset& dataset, std::size_t index) {
             require_sample(dataset, index);
             return file_name(dataset.name(index));
           })
      .def("class_names", [](const Dataset& dataset) { return file_names(dataset.class_names()); })
      .def("remarks",
           [](const Dataset& dataset) {
             std::vector<std::string> remarks = dataset.remarks();
             for (std::string& remark : remarks) remark = printable_name(remark);
             return remarks;
           })
      .def("field_names",
           [](const Dataset& dataset) {
             std::vector<std::string> names;
             for (const FieldSpec& field : dataset.fields()) names.push_back(field.name);
             return file_names(names);
           })
      .def("are_images",
           [](const Dataset& dataset) {
             std::vector<bool> are_images;
             for (const FieldSpec& field : dataset.fields())
               are_images.push_back(field.kind == FieldKind::image);
             return are_images;
           })
      .def("moved_fields",
           [](const Dataset& dataset) {
             std::vector<std::string> told;
             for (const FieldSpec& field : dataset.fields()) {
               if (field.kind == FieldKind::mask) told.push_back("the mask '" + field.name + "'");
               if (field.kind == FieldKind::boxes) told.push_back("the boxes '" + field.name + "'");
             }
             return told;
           })
      .def("label", [](const Dataset& dataset, std::size_t index) {
        const auto* labeled = dynamic_cast<const LabeledDataset*>(&dataset);
        if (labeled == nullptr) throw Refused("this data set has no class for each sample");
        require_sample(dataset, index);
        return labeled->label(index);
      });
  module.def("image_folder", &open_image_folder);
  module.def("labeled_images", &make_labeled_images);
  module.def("can_decode", [](const std::string& name) {
    for (const auto format :
         {ImageFormat::jpeg, ImageFormat::png, ImageFormat::pnm, ImageFormat::bmp, ImageFormat::gif,
          ImageFormat::tiff, ImageFormat::webp})
      if (to_string(format) == name) return can_decode(format);
    throw Refused("unknown image format '" + name + "'");
  });
  module.def("open_dataset", [](const std::string& path, std::int64_t classes,
                                const std::vector<std::string>& names) {
    return opened(
        [&] { return names.empty() ? open_dataset(path, classes) : open_dataset(path, names); });
  });
  module.def("subset", [](const DatasetPtr& dataset, std::vector<std::size_t> indices) {
    if (const auto labeled = std::dynamic_pointer_cast<const LabeledDataset>(dataset))
      return as_python_has_it(subset(labeled, std::move(indices)));
    return as_python_has_it(subset(std::shared_ptr<const Dataset>(dataset), std::move(indices)));
  });
  module.def("concat", [](const std::vector<DatasetPtr>& parts) {
    return as_python_has_it(
        concat_dataset(std::vector<std::shared_ptr<const Dataset>>(parts.begin(), parts.end())));
  });
}

/// A `with` block with keyed random generators, unless `seed` is None.
struct KeyedBlock {
  std::string device;
  std::optional<std::uint64_t> seed;
  std::uint64_t number = 0;
  std::unique_ptr<KeyedDraws> draws = nullptr;
};

void add_serial(py::module_& module) {
  py::class_<KeyedBlock>(module, "KeyedDraws")
      .def(
          py::init([](std::string device, std::optional<std::uint64_t> seed, std::uint64_t number) {
            return std::make_unique<KeyedBlock>(KeyedBlock{std::move(device), seed, number});
          }))
      .def("__enter__",
           [](KeyedBlock& block) {
             if (!block.seed) return;
             const c10::Device device(block.device);
             block.draws = std::make_unique<KeyedDraws>(device, *block.seed, block.number);
           })
      .def("__exit__", [](KeyedBlock& block, const py::args&) { block.draws.reset(); });
  module.def("copy_values", &copy_values);
  module.def("printable_name", [](const std::string& name) { return printable_name(name); });
  module.def("moved", [](py::handle value, const std::string& device) {
    return moved(value, c10::Device(device));
  });
}

void let_garbage_collector_visit(PyHeapTypeObject* type) {
  type->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->ht_type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    // An object owns a reference to its type if the type was created at run time.
    Py_VISIT(Py_TYPE(self));
    // The garbage collector may run before __init__() has constructed the loop.
    if (!py::detail::is_holder_constructed(self)) return 0;
    return py::cast<const Loop&>(py::handle(self)).traverse(visit, arg);
  };
}

void add_loop(py::module_& module) {
  module.def("needs_python", &needs_python);
  py::class_<LoopStage>(module, "LoopStage")
      .def(py::init([](std::string name, const py::function& apply, const py::object& of,
                       std::optional<std::uint64_t> seed, const py::list& kept,
                       const py::object& script, const py::function& arguments,
                       const py::function& placed, const py::tuple& direct, bool chooses_autocast,
                       bool takes_number) {
        return LoopStage{std::move(name),         kept_in(kept, apply),
                         StageWatch(of, kept),    seed,
                         ScriptStage::of(script), kept_in(kept, arguments),
                         kept_in(kept, placed),   kept_in(kept, direct),
                         chooses_autocast,        takes_number};
      }));
  py::class_<AutocastWatch>(module, "AutocastWatch")
      .def(py::init<>())
      .def("is_on", &AutocastWatch::is_on)
      .def("begin_stage", &AutocastWatch::begin_stage)
      .def("end_stage", &AutocastWatch::end_stage)
      .def("begin_body", &AutocastWatch::begin_body)
      .def("end_body", &AutocastWatch::end_body);
  module.def("choose_plan",
             [](const std::vector<double>& serial_s, const std::vector<double>& pipelined_s) {
               const auto to_rate = [](const std::vector<double>& durations_s) {
                 return PlanRate{rate_from_durations(durations_s, "steps/s"), durations_s.size()};
               };
               const AutoChoice choice = choose_mode(to_rate(serial_s), to_rate(pipelined_s));
               return std::pair(choice.chosen, choice.reason);
             });
  py::class_<Loop>(module, "Loop", py::custom_type_setup(&let_garbage_collector_visit))
      .def(
          py::init<const py::object&, const py::object&, std::vector<LoopStage>, const std::string&,
                   std::uint64_t, std::uint64_t, std::size_t, const py::list&>())
      .def("__iter__", [](const py::object& loop) { return loop; })
      .def("__next__", &Loop::next)
      .def("close", &Loop::close)
      .def("failed", &Loop::failed)
      .def("given", &Loop::given)
      .def("loader_times", &Loop::loader_times)
      .def("lost", &Loop::lost);
}

int run_main(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const GilRelease unlocked;
  return cli_main(static_cast<int>(words.size()), pointers.data(), built_in_workloads());
}

}  // namespace

}  // namespace slipstream

PYBIND11_MODULE(_native, module) {
  slipstream::add_errors(module);
  slipstream::add_datasets(module);
  slipstream::add_transforms(module);
  slipstream::add_samples(module);
  slipstream::add_workers(module);
  slipstream::add_loader(module);
  slipstream::add_epoch_order(module);
  slipstream::add_loop(module);
  slipstream::add_serial(module);
  slipstream::add_diagnosis(module);
  slipstream::add_measuring(module);
  slipstream::add_python_loop(module);
  slipstream::add_examined_loader(module);
  slipstream::add_trainer(module);
  slipstream::add_loop_meter(module);
  slipstream::add_features(module);
  module.def("main", &slipstream::run_main);
  slipstream::refuse_new_alone(module);
}
