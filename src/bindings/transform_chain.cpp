#include "bindings/transform_chain.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bindings/gil.h"
#include "engine/augment_stage.h"
#include "slipstream/transforms/chain.h"
#include "transforms/device_chain.h"
#include "transforms/geometry.h"

namespace slipstream {
namespace {

constexpr const char* kImage = "image";

FieldSpec make_spec(const at::Tensor& images) {
  if (images.layout() != at::kStrided || !(images.is_cpu() || images.is_cuda()))
    throw Refused("transforms accept dense tensors on a CPU or a GPU, not one of layout " +
                  c10::str(images.layout()) + " on " + images.device().str() +
                  ": convert it (to_dense(), to())");
  const bool is_bytes = images.scalar_type() == at::kByte;
  if (images.dim() != 4 || (!is_bytes && images.scalar_type() != at::kFloat))
    throw Refused(
        "transforms accept images of batch x channels x height x width, uint8 or float32, not " +
        std::string(c10::toString(images.scalar_type())) + " of " + c10::str(images.sizes()));
  FieldSpec spec{kImage, FieldKind::image, is_bytes ? DType::uint8 : DType::float32, {}};
  spec.shape = Shape{images.size(2), images.size(3), images.size(1)};
  return spec;
}

/// Replaces the default stream, which callers in Python usually use, by another stream of PyTorch
/// during its lifetime, because the library's kernels never run on the default stream. The new
/// stream waits for earlier work of the default stream, and later work of that waits for the new
/// one.
class SideStreamScope {
 public:
  explicit SideStreamScope(c10::Device device) {
    if (!device.is_cuda()) return;
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device.index());
    if (current.stream() != nullptr) return;
    callers_.emplace(current);
    const c10::cuda::CUDAStream own = c10::cuda::getStreamFromPool(false, device.index());
    own.unwrap().wait(event_on(current));
    guard_.emplace(own);
  }
  /// Allows the use of `made` on the caller's stream.
  void hand_over(const at::Tensor& made) {
    if (!callers_) return;
    const c10::cuda::CUDAStream own = guard_->current_stream();
    guard_.reset();
    callers_->unwrap().wait(event_on(own));
    // The memory belongs to the other stream, where the allocator would reuse it without waiting
    // for the caller's work.
    made.record_stream(callers_->unwrap());
  }

 private:
  static c10::Event event_on(const c10::cuda::CUDAStream& stream) {
    c10::Event event(c10::kCUDA);
    event.record(stream.unwrap());
    return event;
  }

  std::optional<c10::cuda::CUDAStream> callers_;
  std::optional<c10::cuda::CUDAStreamGuard> guard_;
};

}  // namespace

struct TransformChain::Form {
  std::shared_ptr<const DeviceChain> chain;
  FrozenStage stage;
};

TransformChain::TransformChain(const std::string& json) : ops_(parse_chain(json)) {}

TransformChain::~TransformChain() = default;

bool TransformChain::is_random() const {
  return std::any_of(ops_.begin(), ops_.end(),
                     [](const NamedOp& each) { return each.op.is_random(); });
}

const TransformChain::Form& TransformChain::find_form(const at::Tensor& images) {
  const FieldSpec spec = make_spec(images);
  const std::string key =
      c10::str(spec.shape.dims[0], " ", spec.shape.dims[1], " ", spec.shape.dims[2], " ",
               images.scalar_type(), " ", images.device());
  const std::lock_guard lock(changing_);
  std::unique_ptr<Form>& form = forms_[key];
  if (form != nullptr) return *form;
  const auto chain = std::make_shared<DeviceChain>(ops_, 0, std::vector<FieldSpec>{spec});
  SlabLayout layout;
  layout.fields.push_back({.spec = spec, .dtype = spec.dtype});
  layout.device_chain = chain;
  form = std::make_unique<Form>(Form{chain, augment_stage(layout, images.is_cuda())});
  return *form;
}

at::Tensor TransformChain::operator()(const at::Tensor& images,
                                      const std::vector<std::uint64_t>& samples, std::uint64_t seed,
                                      std::uint32_t epoch) {
  const Form& form = find_form(images);
  const auto count = static_cast<std::size_t>(images.size(0));
  if (samples.size() != count)
    throw Refused("there are " + std::to_string(count) + " images, but " +
                  std::to_string(samples.size()) + " sample_ids: give one for each image");
  const at::Tensor drawn =
      at::empty({images.size(0), static_cast<std::int64_t>(form.chain->drawn_bytes())},
                at::TensorOptions().dtype(at::kByte).pinned_memory(images.is_cuda()));
  for (std::size_t i = 0; i < count; ++i) {
    const RandomKey key{.seed = seed, .epoch = epoch, .sample = samples[i]};
    form.chain->draw(key, reinterpret_cast<std::byte*>(drawn.mutable_data_ptr<std::uint8_t>()) +
                              i * form.chain->drawn_bytes());
  }
  if (count == 0) throw Refused("there are no images");
  SideStreamScope stream(images.device());
  Batch batch;
  batch.set(kImage, images.contiguous(at::MemoryFormat::ChannelsLast));
  batch.set(kDrawnField, drawn.to(images.device(), at::kByte, /*non_blocking=*/true));
  form.stage.run(batch);
  const at::Tensor made = batch.at(kImage);
  stream.hand_over(made);
  return made;
}

void add_transforms(pybind11::module_& module) {
  namespace py = pybind11;
  py::class_<TransformChain, std::shared_ptr<TransformChain>>(module, "TransformChain")
      .def(py::init<const std::string&>())
      .def("to_json", [](const TransformChain& chain) { return to_json_text(chain.ops()); })
      .def("moving_ops",
           [](const TransformChain& chain) {
             std::vector<std::string> names;
             for (const NamedOp& each : chain.ops())
               if (each.op.touches(FieldKind::boxes) || moves_only_images(each.op))
                 names.emplace_back(each.op.name());
             return names;
           })
      .def("is_random", &TransformChain::is_random)
      .def("__call__", &TransformChain::operator(), py::call_guard<GilRelease>());
}

}  // namespace slipstream
