#include "bindings/autocast_watch.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "slipstream/core/error.h"

namespace slipstream {
namespace {

using CastSet = std::set<CastOperation>;

/// The operations that ATen/autocast_mode.h casts to a lower precision.
constexpr std::array<std::string_view, 30> kCast = {
    "aten::_convolution",
    "aten::conv1d",
    "aten::conv2d",
    "aten::conv3d",
    "aten::conv_tbc",
    "aten::conv_transpose1d",
    "aten::conv_transpose2d",
    "aten::conv_transpose3d",
    "aten::convolution",
    "aten::prelu",
    "aten::addmm",
    "aten::addmv",
    "aten::addr",
    "aten::matmul",
    "aten::einsum",
    "aten::mm",
    "aten::mv",
    "aten::linalg_vecdot",
    "aten::linear",
    "aten::addbmm",
    "aten::baddbmm",
    "aten::bmm",
    "aten::chain_matmul",
    "aten::linalg_multi_dot",
    "aten::lstm_cell",
    "aten::gru_cell",
    "aten::rnn_tanh_cell",
    "aten::rnn_relu_cell",
    "aten::_scaled_dot_product_flash_attention",
    "aten::scaled_dot_product_attention",
};

/// The observers of one thread. They may end in any order, because a loop body may contain a loop.
struct Observers {
  std::vector<std::weak_ptr<CastSet>> all;
  at::CallbackHandle handle = 0;
  /// Depth of nested kCast operations. Only the outermost one has the caller's autocast state.
  int depth = 0;
};

Observers& observers() {
  thread_local Observers of_thread;
  return of_thread;
}

std::optional<at::ScalarType> autocast_on(c10::DeviceType device) {
  if (!at::autocast::is_autocast_available(device) || !at::autocast::is_autocast_enabled(device))
    return std::nullopt;
  return at::autocast::get_autocast_dtype(device);
}

/// The inputs that autocast casts if it has another dtype.
std::vector<at::Tensor> castable_inputs(const at::RecordFunction& operation) {
  std::vector<at::Tensor> castable;
  for (const c10::IValue& input : operation.inputs()) {
    std::vector<at::Tensor> tensors;
    if (input.isTensor()) tensors.push_back(input.toTensor());
    if (input.isTensorList()) tensors = input.toTensorVector();
    for (at::Tensor& tensor : tensors)
      if (tensor.defined() && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble)
        castable.push_back(std::move(tensor));
  }
  return castable;
}

std::optional<at::ScalarType> common_dtype(const std::vector<at::Tensor>& tensors) {
  const at::ScalarType first = tensors.front().scalar_type();
  for (const at::Tensor& each : tensors)
    if (each.scalar_type() != first) return std::nullopt;
  return first;
}

bool is_cast(const at::RecordFunction& operation) {
  const auto name = operation.operator_name();
  return name && std::find(kCast.begin(), kCast.end(), name->name) != kCast.end();
}

std::unique_ptr<at::ObserverContext> begin_operation(const at::RecordFunction& operation) {
  if (!is_cast(operation)) return nullptr;
  Observers& here = observers();
  // Operations of a backward pass do not count, because backward() is usually called outside of the
  // torch.autocast that surrounds its forward pass.
  if (here.depth++ > 0 || torch::autograd::get_current_graph_task_id() != -1) return nullptr;
  const std::vector<at::Tensor> inputs = castable_inputs(operation);
  if (inputs.empty()) return nullptr;
  const c10::DeviceType device = inputs.front().device().type();
  for (const std::weak_ptr<CastSet>& each : here.all)
    if (const auto seen = each.lock())
      seen->insert({device, autocast_on(device), common_dtype(inputs), at::GradMode::is_enabled()});
  return nullptr;
}

void end_operation(const at::RecordFunction& operation, at::ObserverContext*) {
  if (is_cast(operation)) --observers().depth;
}

std::string autocast_dtype(at::ScalarType type) {
  return type == at::kBFloat16 ? "torch.bfloat16"
         : type == at::kHalf   ? "torch.float16"
                               : at::toString(type);
}

std::string difference_text(const std::string& stage, const CastOperation& there,
                            const CastOperation& here) {
  const std::string dtype = autocast_dtype(*here.autocast);
  return "stage '" + stage + "' ran " +
         (there.autocast ? "under torch.autocast with " + autocast_dtype(*there.autocast)
                         : std::string("without torch.autocast")) +
         ", but the loop body enters torch.autocast('" + c10::DeviceTypeName(here.device, true) +
         "', " + dtype +
         "), which has no effect on a stage that runs ahead of it. Remedy: set autocast for the " +
         "stage, slipstream.Stage('" + stage + "', ..., autocast=" + dtype +
         ") or autocast=" + (there.autocast ? autocast_dtype(*there.autocast) : "False") +
         " to keep the present behavior, or enter it around the loop, with cache_enabled=False if "
         "the loop trains weights";
}

/// Returns an operation of `body` under another autocast state than `of_stage`, or nullptr if one
/// has the same state. States are the same if the body's would not cast the inputs of `of_stage`:
/// torch.compile turns an autocast that the stage enters into casts, and calls operations without.
const CastOperation* differing(const CastSet& body, const CastOperation& of_stage) {
  for (const bool has_gradients : {true, false}) {
    const CastOperation* differs = nullptr;
    bool is_same = false;
    for (const CastOperation& each : body) {
      if (each.device != of_stage.device || each.has_gradients != has_gradients) continue;
      if (each.autocast == of_stage.autocast || (each.autocast && each.autocast == of_stage.inputs))
        is_same = true;
      if (each.autocast && each.autocast != of_stage.autocast) differs = &each;
    }
    if (is_same || differs != nullptr) return is_same ? nullptr : differs;
  }
  return nullptr;
}

}  // namespace

CastOperations::CastOperations() : seen_(std::make_shared<CastSet>()) {
  Observers& here = observers();
  if (here.all.empty()) {
    here.depth = 0;
    here.handle =
        at::addThreadLocalCallback(at::RecordFunctionCallback(begin_operation, end_operation)
                                       .needsInputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
  }
  here.all.push_back(seen_);
}

/// If another thread calls the destructor, the callback stays registered and finds no observer.
CastOperations::~CastOperations() {
  seen_.reset();
  Observers& here = observers();
  if (std::erase_if(here.all, [](const auto& each) { return each.expired(); }) > 0 &&
      here.all.empty())
    at::removeCallback(here.handle);
}

void AutocastWatch::begin_stage() { observed_.emplace(); }

void AutocastWatch::end_stage(const std::string& name) {
  for (CastOperation each : observed_->seen()) {
    each.has_gradients = false;
    if (each.autocast == autocast_on(each.device)) stages_[name].insert(each);
  }
  observed_.reset();
}

void AutocastWatch::begin_body() {
  observed_.reset();
  if (is_on() && !stages_.empty()) observed_.emplace();
  if (is_on()) ++bodies_;
}

std::string AutocastWatch::end_body() {
  if (!observed_) return "";
  const CastSet body = observed_->seen();
  observed_.reset();
  for (const auto& [stage, operations] : stages_)
    for (const CastOperation& each : operations)
      if (const CastOperation* const differs = differing(body, each))
        return difference_text(stage, each, *differs);
  return "";
}

}  // namespace slipstream
