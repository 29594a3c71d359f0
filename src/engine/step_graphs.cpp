#include "engine/step_graphs.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/graph_check.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

void append(std::string& text, std::int64_t number) { text += std::to_string(number) + ","; }

/// Returns everything of a batch on which the work of a step depends, except for addresses and
/// values.
std::string describe_kind(const Batch& batch, const std::string& variant) {
  std::string kind = variant;
  for (const auto& [name, tensor] : batch.fields()) {
    kind += "; " + name + " ";
    append(kind, static_cast<std::int64_t>(tensor.scalar_type()));
    append(kind, batch.classes(name));
    for (const std::int64_t size : tensor.sizes()) append(kind, size);
    kind += " ";
    for (const std::int64_t stride : tensor.strides()) append(kind, stride);
  }
  return kind;
}

std::vector<const void*> find_addresses(const Batch& batch, const StepCall& call) {
  std::vector<const void*> addresses;
  for (const auto& [name, tensor] : batch.fields())
    addresses.push_back(call.is_static(tensor) ? tensor.const_data_ptr() : nullptr);
  return addresses;
}

std::vector<at::Tensor> list_tensors(const StepResult& result) {
  std::vector<at::Tensor> all = result.value.outputs;
  for (const auto& [name, tensor] : result.made) all.push_back(tensor);
  for (const at::Tensor& each : {result.value.loss, result.value.correct})
    if (each.defined()) all.push_back(each);
  return all;
}

/// Returns a tensor of the same memory without a reference to the tensor that it is a view of. That
/// reference would make its memory look as if code outside still used it.
at::Tensor without_base(const at::Tensor& tensor) { return tensor.variable_data(); }

/// Returns the first line of a message, which in PyTorch's errors is followed by a stack trace.
std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

}  // namespace

StepGraphs::StepGraphs(std::string step, std::unique_ptr<GraphRecorder> recorder, std::size_t slots)
    : step_(std::move(step)), recorder_(std::move(recorder)), slots_(slots) {}

StepResult StepGraphs::run(const Batch& batch, std::size_t slot, const StepCall& call) {
  if (!is_disabled_) {
    const std::string kind = describe_kind(batch, call.variant);
    Recorded* recorded = find(slot, kind);
    if (recorded != nullptr && recorded->addresses != find_addresses(batch, call)) {
      remove(slot, recorded, call.slot_mutex);
      recorded = nullptr;
    }
    if (recorded == nullptr && !is_disabled_ && is_due(kind))
      recorded = record(batch, slot, kind, call);
    if (recorded != nullptr) {
      ++counts_.replays;
      // The batch that was recorded would show no difference.
      const bool is_other = recorded->number != batch.number();
      if (!is_other || checked_.contains(kind)) return replay(batch, *recorded);
      checked_.insert(kind);
      return checked_replay(batch, *recorded, call);
    }
  }
  Batch own = batch;
  return call.work(own);
}

bool StepGraphs::is_due(const std::string& kind) {
  const auto known = eager_runs_.find(kind);
  if (known == eager_runs_.end()) {
    if (eager_runs_.size() < kMostKinds) eager_runs_.emplace(kind, 1);
    return false;
  }
  return known->second == kEagerRuns || ++known->second > kEagerRuns;
}

StepGraphs::Recorded* StepGraphs::find(std::size_t slot, const std::string& kind) const {
  for (const auto& each : slots_[slot])
    if (each->kind == kind) return each.get();
  return nullptr;
}

void StepGraphs::remove(std::size_t slot, const Recorded* old, std::mutex* slot_mutex) {
  {
    const std::lock_guard lock(*slot_mutex);
    std::erase_if(slots_[slot], [&](const auto& each) { return each.get() == old; });
  }
  ++counts_.renewed;
  if (++renewals_ < kMostRenewals * slots_.size()) return;
  is_disabled_ = true;
  warn(
      "the memory of its inputs changes again and again, so that each batch would need a new "
      "graph. Remedy: do not keep tensors of a batch; keep a clone()");
}

StepGraphs::Recorded* StepGraphs::record(const Batch& batch, std::size_t slot,
                                         const std::string& kind, const StepCall& call) {
  auto made = std::make_unique<Recorded>();
  made->kind = kind;
  made->addresses = find_addresses(batch, call);
  made->number = batch.number();
  for (std::size_t i = 0; i < made->addresses.size(); ++i) {
    const auto& [name, tensor] = batch.fields()[i];
    const bool is_static = made->addresses[i] != nullptr;
    made->inputs.set(name, is_static ? without_base(tensor) : at::empty_like(tensor),
                     batch.classes(name));
  }
  const auto result = std::make_shared<std::optional<StepResult>>();
  const auto work = [run = call.work, recorded = made.get(), result] {
    Batch own(recorded->number);
    // If Python keeps an object for a tensor, it must not be one of those that are counted as own.
    for (const auto& [name, tensor] : recorded->inputs.fields())
      own.set(name, without_base(tensor), recorded->inputs.classes(name));
    StepResult computed = run(own);
    std::vector<at::Tensor> tensors = list_tensors(computed);
    if (!*result) *result = std::move(computed);
    return tensors;
  };
  // Weights that autocast converts during the recording are in the memory of the graph, and those
  // that it converted before are not.
  at::autocast::clear_cache();
  try {
    made->work = recorder_->record(work);
    at::autocast::clear_cache();
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    at::autocast::clear_cache();
    result->reset();
    is_disabled_ = true;
    warn(first_line(error.what()));
    call.undo();
    return nullptr;
  }
  made->result = std::move(**result);
  for (auto& [name, tensor] : made->result.made) tensor = without_base(tensor);
  ++counts_.graphs;
  const std::lock_guard lock(*call.slot_mutex);
  return slots_[slot].emplace_back(std::move(made)).get();
}

StepResult StepGraphs::checked_replay(const Batch& batch, Recorded& recorded,
                                      const StepCall& call) {
  std::optional<GraphCheck> check;
  try {
    check.emplace(call.state());
  } catch (const c10::OutOfMemoryError&) {
    return replay(batch, recorded);  // there is no memory for a comparison
  }
  const std::function<void()> restore = call.save();
  StepResult replayed;
  for (int i = 0; i < (call.is_deterministic ? 1 : 2); ++i) {
    replayed = replay(batch, recorded);
    check->add_replay(list_tensors(replayed));
    check->restore();
    restore();
    call.undo();
  }
  Batch own = batch;
  StepResult computed = call.work(own);
  if (check->matches(list_tensors(computed), call.is_deterministic)) return replayed;
  is_disabled_ = true;
  warn(
      "its graph computes something else than the step itself, whose results are used. Remedy: a "
      "graph repeats the numbers, branches and calls with which it was recorded, so the step must "
      "not depend on variables that change");
  return computed;
}

StepResult StepGraphs::replay(const Batch& batch, Recorded& recorded) {
  recorded.number = batch.number();
  for (std::size_t i = 0; i < recorded.addresses.size(); ++i)
    if (recorded.addresses[i] == nullptr) {
      const at::NoGradGuard no_gradients;
      const at::Tensor to = recorded.inputs.fields()[i].second;
      to.copy_(batch.fields()[i].second, /*non_blocking=*/true);
    }
  recorded.work->replay();
  StepResult result = recorded.result;
  for (auto& [name, tensor] : result.made) tensor = without_base(tensor);
  return result;
}

void StepGraphs::warn(const std::string& reason) {
  counts_.warnings.push_back("'" + step_ + "' runs without CUDA graphs: " + reason);
}

void StepGraphs::disable(const std::string& reason) {
  if (is_disabled_) return;
  is_disabled_ = true;
  warn(reason);
}

std::vector<const Fields*> StepGraphs::fields(std::size_t slot) const {
  std::vector<const Fields*> all;
  for (const auto& each : slots_[slot]) {
    all.push_back(&each->inputs.fields());
    all.push_back(&each->result.made);
  }
  return all;
}

bool StepGraphs::is_result(std::size_t slot, const at::Tensor& tensor) const {
  for (const auto& each : slots_[slot])
    for (const auto& [name, made] : each->result.made)
      if (tensor.storage().is_alias_of(made.storage())) return true;
  return false;
}

void StepGraphs::release_held(std::size_t slot, c10::Device device, std::span<void* const> streams,
                              const std::function<std::vector<const Fields*>()>& own,
                              const DeviceSlab& slab) {
  // Memory that the step only passes on is renewed by the step that writes to it. That step may
  // already run for the next batch on another lane, whose references are not in `own`. A renewal
  // changes the address of the field, so that this step is then recorded again, too.
  const auto is_passed_on = [&](const Recorded& each, const at::Tensor& tensor) {
    if (slab.has(tensor)) return true;
    for (std::size_t i = 0; i < each.addresses.size(); ++i) {
      const at::Tensor& input = each.inputs.fields()[i].second;
      if (each.addresses[i] != nullptr && tensor.storage().is_alias_of(input.storage()))
        return true;
    }
    return false;
  };
  const auto is_held = [&](const Recorded& each) {
    return std::any_of(each.result.made.begin(), each.result.made.end(), [&](const auto& field) {
      return !is_passed_on(each, field.second) && is_held_outside(field.second, own());
    });
  };
  Recordings& all = slots_[slot];
  for (std::size_t i = all.size(); i-- > 0;) {
    if (!is_held(*all[i])) continue;
    std::erase_if(all[i]->result.made,
                  [&](const auto& field) { return is_passed_on(*all[i], field.second); });
    release_tensors(all[i]->result.made, device, streams, own());
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    ++counts_.renewed;
    if (++renewals_ < kMostRenewals * slots_.size()) continue;
    is_disabled_ = true;
    warn(
        "code outside of the pipeline keeps its outputs, so that each batch would need a new "
        "graph. Remedy: keep a clone() of them");
  }
}

GraphCounts StepGraphs::take_counts() { return std::exchange(counts_, {}); }

}  // namespace slipstream
