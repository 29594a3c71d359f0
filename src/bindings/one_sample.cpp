#include "bindings/one_sample.h"

#include <ATen/ops/from_blob.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "bindings/gil.h"
#include "bindings/process_dataset.h"
#include "bindings/transform_chain.h"
#include "bindings/worker_pool.h"
#include "engine/scalar_type.h"
#include "slipstream/core/error.h"
#include "transforms/geometry.h"

namespace slipstream {
namespace {

namespace py = pybind11;

/// Copies an array of height x width x channels to a tensor.
at::Tensor copy_tensor(const ConstArray& array) {
  const at::IntArrayRef sizes(array.shape.dims.data(), array.shape.rank);
  return at::from_blob(const_cast<std::byte*>(array.data), sizes, scalar_type(array.dtype));
}

at::Tensor channels_first(const ConstArray& image) {
  return copy_tensor(image).permute({2, 0, 1}).clone(at::MemoryFormat::Contiguous);
}

void assign(HostArray& to, const at::Tensor& from) {
  const at::Tensor values = from.contiguous();
  const DType dtype = values.scalar_type() == at::kFloat ? DType::float32 : DType::uint8;
  to.assign({static_cast<const std::byte*>(values.const_data_ptr()),
             dtype,
             {values.size(0), values.size(1), values.size(2)}});
}

/// A function of Python for an image, called on the thread that requests the sample.
struct CalledOp {
  static constexpr std::string_view kName = "python";
  struct Drawn {
    std::uint64_t seed;
  };

  /// Its arguments are the image, channels x height x width on the CPU, and the seed of its random
  /// numbers.
  py::handle function;
  bool keeps_sizes = false;
  std::uint64_t step = 0;  ///< index among the steps in Python

  void validate() const {}
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const { return in; }
  bool is_random() const { return true; }
  Drawn draw(const RandomKey& key, const Shape&) const { return {python_seed(key, 1 + step)}; }
  void apply(Drawn drawn, FieldKind kind, ConstArray in, MutableArray out, Scratch& scratch) const {
    make(drawn, kind, in, scratch);
    std::copy_n(scratch.view().data, out.bytes(), out.data);
  }
  void make(Drawn drawn, FieldKind, ConstArray in, HostArray& out) const {
    const GilAcquire locked;
    assign(out, function(channels_first(in), drawn.seed).cast<at::Tensor>().permute({1, 2, 0}));
    if (keeps_sizes) require_size(in.shape, out.view().shape);
  }
};

/// A data set with one sample, the given images. Only index `number` is read, so that random
/// transforms use the random numbers of that sample.
class GivenImages final : public Dataset {
 public:
  GivenImages(const std::vector<at::Tensor>& images, std::size_t number) : number_(number) {
    sample_.fields.resize(images.size());
    for (std::size_t i = 0; i < images.size(); ++i) assign(sample_.fields[i].array, images[i]);
  }

  std::size_t size() const override { return number_ + 1; }
  void read(std::size_t, Sample& out) const override { out = sample_; }
  std::vector<FieldSpec> fields() const override {
    std::vector<FieldSpec> specs;
    for (const Field& field : sample_.fields) {
      const ConstArray image = field.array.view();
      specs.push_back(
          {"image " + std::to_string(specs.size()), FieldKind::image, image.dtype, image.shape});
    }
    return specs;
  }

 private:
  std::size_t number_;
  Sample sample_;
};

/// A request to apply transforms to one sample.
struct TransformRequest {
  std::shared_ptr<TransformChain> chain;
  std::vector<std::tuple<std::size_t, std::string, py::object>> functions;  ///< index, name
  bool keeps_sizes = false;  ///< whether functions must not change the size of an image
  RandomKey key = {};        ///< without the sample
};

Sample made(const Dataset& dataset, const TransformRequest& asked, std::size_t index) {
  std::vector<NamedOp> chain = asked.chain->ops();
  std::uint64_t step = 0;
  for (const auto& [place, name, function] : asked.functions)
    chain.insert(chain.begin() + static_cast<std::ptrdiff_t>(place),
                 {name, CalledOp{function, asked.keeps_sizes, step++}});
  const GilRelease unlocked;
  RandomKey key = asked.key;
  key.sample = index;
  return made_sample(dataset, chain, key, "", [](std::size_t, const Sample&) {});
}

py::object given(FieldKind kind, const ConstArray& array) {
  if (kind == FieldKind::image) return py::cast(channels_first(array));
  const at::Tensor values = copy_tensor(array);
  if (kind == FieldKind::label && values.numel() == 1) return py::int_(values.item<std::int64_t>());
  const bool is_number = kind == FieldKind::label || kind == FieldKind::mask;
  return py::cast(is_number ? values.to(at::kLong, false, true) : values.clone());
}

py::tuple make_sample(const Dataset& dataset, const TransformRequest& asked, std::size_t index) {
  const Sample sample = made(dataset, asked, index);
  const std::vector<FieldSpec> specs = dataset.fields();
  py::tuple all(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i)
    all[i] = given(specs[i].kind, sample.fields[i].array.view());
  return all;
}

std::vector<at::Tensor> transformed(const std::vector<at::Tensor>& images,
                                    const TransformRequest& asked, std::size_t index) {
  std::vector<at::Tensor> all;
  for (const Field& field : made(GivenImages(images, index), asked, index).fields)
    all.push_back(channels_first(field.array.view()));
  return all;
}

}  // namespace

Sample made_sample(const Dataset& dataset, const std::vector<NamedOp>& chain, const RandomKey& key,
                   const std::string& note,
                   const std::function<void(std::size_t, const Sample&)>& done) {
  const std::vector<FieldSpec> specs = dataset.fields();
  Sample sample;
  std::vector<HostArray> spare(specs.size());
  Scratch scratch;
  std::string step = "read";
  const auto describe_failure = [&](const std::exception& error) {
    return "step '" + step + "' of sample " + std::to_string(key.sample) + " (" +
           printable_name(dataset.name(key.sample)) + note + "): " + error.what();
  };
  for (const NamedOp& each : chain)
    if (const std::string problem = problem_of_fields(each.op, specs); !problem.empty())
      throw Refused(each.op.get_if<CalledOp>() == nullptr ? problem : kNoImages);
  try {
    sample.fields.resize(specs.size());
    dataset.read_keyed(key.sample, key, sample);
    step = "decode";
    for (std::size_t i = 0; i < specs.size(); ++i)
      dataset.decode(specs[i], {}, sample.fields[i], spare[i]);
    for (std::size_t i = 0; i < chain.size(); ++i) {
      step = chain[i].name;
      RandomKey own = key;
      own.operation = static_cast<std::uint32_t>(key_number(chain, i));
      chain[i].op.apply(own, specs, sample, spare, scratch);
      done(i, sample);
    }
  } catch (const Error& error) {
    throw UnfitSample(describe_failure(error));
  } catch (const WorkerLost& error) {
    throw Error(describe_failure(error));
  }
  return sample;
}

void add_samples(py::module_& module) {
  py::class_<TransformRequest>(module, "Transforms")
      .def(py::init([](std::shared_ptr<TransformChain> chain,
                       std::vector<std::tuple<std::size_t, std::string, py::object>> functions,
                       bool keeps_sizes, std::uint64_t seed, std::uint32_t epoch,
                       std::uint16_t occurrence) {
        return TransformRequest{std::move(chain),
                                std::move(functions),
                                keeps_sizes,
                                {.seed = seed, .epoch = epoch, .occurrence = occurrence}};
      }));
  module.def("python_seed", [](std::uint64_t seed, std::uint32_t epoch, std::uint64_t sample,
                               std::uint16_t occurrence) {
    return python_seed({.seed = seed, .epoch = epoch, .sample = sample, .occurrence = occurrence},
                       0);
  });
  module.def("make_sample", &make_sample);
  module.def("transformed", &transformed);
}

}  // namespace slipstream
