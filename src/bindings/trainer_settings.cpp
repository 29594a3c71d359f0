#include "bindings/trainer_settings.h"

#include <algorithm>
#include <set>

#include "bindings/process_dataset.h"
#include "slipstream/transforms/batch_ops.h"

namespace slipstream {
namespace {

namespace py = pybind11;

BatchSizes batch_sizes(const NativeLoader& loader, const Pipeline& pipeline) {
  const std::uint64_t full = pipeline.options().batch_size;
  if (const auto lister = pipeline.lister())
    return {static_cast<std::int64_t>(full), [lister, full](std::uint64_t batch) {
              const std::shared_ptr<BatchQueue> queue = lister->queue();
              // Measurements train on full batches that are not listed.
              return static_cast<std::int64_t>(queue->has(batch) ? queue->batch_size(batch) : full);
            }};
  const std::uint64_t rest = loader.keeps_rest() ? loader.dataset()->size() % full : 0;
  const std::uint64_t last = rest == 0 ? full : rest;
  return {static_cast<std::int64_t>(full),
          [full, last, length = pipeline.batches_per_epoch()](std::uint64_t batch) {
            return static_cast<std::int64_t>(batch % length == length - 1 ? last : full);
          }};
}

NamedFields chosen(const NamedFields& all, const std::vector<std::string>& names) {
  NamedFields some;
  std::vector<std::string> known;
  for (const NamedField& each : all) known.push_back(each.name);
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) throw Refused(unknown_name("field", name, known));
    some.push_back(all[static_cast<std::size_t>(found - known.begin())]);
  }
  return some;
}

std::vector<ParameterGroup> make_groups(const TrainerSettings& settings) {
  std::vector<ParameterGroup> groups;
  for (const GroupSettings& each : settings.groups) {
    std::set<const void*> own;
    for (const at::Tensor& parameter : each.parameters) own.insert(parameter.unsafeGetTensorImpl());
    groups.push_back({.takes =
                          [own](const NamedTensor& parameter) {
                            return own.contains(parameter.tensor.unsafeGetTensorImpl());
                          },
                      .lr_factor = each.lr ? *each.lr / settings.lr : 1,
                      .weight_decay = each.weight_decay});
  }
  if (!settings.no_weight_decay_on.empty())
    groups.push_back(no_weight_decay_on(settings.no_weight_decay_on));
  return groups;
}

std::shared_ptr<Optimizer> build_optimizer(const TrainerSettings& settings) {
  if (settings.optimizer == "sgd") {
    if (settings.betas || settings.eps)
      throw Refused("sgd has no betas and no eps; leave them out, or give optimizer='adamw'");
    return sgd({.lr = settings.lr,
                .momentum = settings.momentum.value_or(0),
                .weight_decay = settings.weight_decay.value_or(SgdOptions().weight_decay),
                .nesterov = settings.nesterov,
                .groups = make_groups(settings)});
  }
  if (settings.optimizer != "adamw")
    throw Refused(unknown_name("optimizer", settings.optimizer, {"sgd", "adamw"}));
  if (settings.momentum || settings.nesterov)
    throw Refused("adamw has no momentum and no nesterov; leave them out");
  return adamw({.lr = settings.lr,
                .betas = settings.betas.value_or(AdamWOptions().betas),
                .eps = settings.eps.value_or(AdamWOptions().eps),
                .weight_decay = settings.weight_decay.value_or(AdamWOptions().weight_decay),
                .groups = make_groups(settings)});
}

/// Creates a metric of class numbers by its name.
Metric make_metric(const std::string& name, const std::string& target, std::int64_t classes) {
  if (name.starts_with("top") && name.size() > 3 &&
      name.find_first_not_of("0123456789", 3) == std::string::npos && name.size() < 8)
    return top_k(target, std::max(1, std::stoi(name.substr(3))));
  if (name != "class_accuracy" && name != "mean_iou")
    throw Refused(unknown_name("metric", name, {"top1", "top5", "class_accuracy", "mean_iou"}));
  if (classes == 0)
    throw Refused("the metric '" + name + "' needs to know how many classes there are, which " +
                  "the data set does not report: give num_classes, or remove the metric");
  return name == "mean_iou" ? mean_iou(target, classes) : class_accuracy(target, classes);
}

/// The number of classes that a data set reports for masks if it does not know it: all values of a
/// byte.
constexpr std::int64_t kClassesOfBytes = 256;

/// Returns the field with the number of classes for metrics. `classes`: 0: unknown.
FieldSpec counted_field(const Dataset& dataset, const std::string& name, std::int64_t classes) {
  for (FieldSpec each : dataset.fields()) {
    if (each.name != name) continue;
    if (each.kind == FieldKind::mask && each.classes == kClassesOfBytes) each.classes = 0;
    if (classes > 0) each.classes = classes;
    return each;
  }
  return {};
}

Pipeline with_batch_ops(Pipeline made, const BatchOps& ops) {
  const auto add = [&](const auto& op) {
    if (op) made = std::move(made).transform(std::string(op->kName), *op);
  };
  add(ops.mixup);
  add(ops.cutmix);
  add(ops.one_hot);
  return made;
}

/// Returns the metrics that `slipstream train` uses for such a target.
std::vector<std::string> metrics_for(const FieldSpec& target, const TrainerSettings& settings) {
  if (!settings.loss.is_none()) return {};
  if (target.kind == FieldKind::mask && target.classes > 0) return {"mean_iou"};
  if (target.kind != FieldKind::label) return {};
  if (target.classes == 0) return {"top1", "top5"};
  if (target.classes <= 5) return {"top1", "class_accuracy"};  // top5 would always be 1
  return {"top1", "top5", "class_accuracy"};
}

}  // namespace

Pipeline make_data_pipeline(const NativeLoader& loader, bool is_evaluated,
                            std::optional<std::size_t> batch_size) {
  loader.check_process();
  DataLoaderOptions given = loader.options();
  given.batch_size = batch_size.value_or(given.batch_size);
  if (given.rank.count != 1)
    throw Refused(
        "slipstream.Trainer trains in one process, but the loader loads the share of one of "
        "several processes: give it rank=0 and world_size=1, or write a custom training loop");
  Pipeline made(loader.dataset(), given);
  for (const NamedOp& each : loader.transforms()) {
    const auto* in_python = each.op.get_if<PythonOp>();
    AnyOp op = each.op;
    if (is_evaluated && in_python != nullptr) {
      PythonOp kept = *in_python;
      kept.may_draw = false;
      op = std::move(kept);
    }
    made = std::move(made).transform(each.name, std::move(op));
  }
  return with_batch_ops(std::move(made), given.batch_ops);
}

Pipeline build_pipeline(const NativeLoader& loader, const TrainerSettings& settings,
                        WorkloadInfo& workload) {
  const auto& order = settings.order;
  Pipeline made = make_data_pipeline(loader, /*is_evaluated=*/false,
                                     order ? std::optional(order->batch_size) : std::nullopt);
  const py::handle kept = settings.kept;
  if (order)
    made = std::move(made).listed_by(
        std::make_shared<PythonLister>(*order, kept, loader.dataset()->size(), settings.steps));
  const NamedFields fields = collect_fields(*loader.dataset());
  const NamedFields inputs = chosen(fields, settings.inputs);
  const NamedFields targets = chosen(fields, settings.targets);
  if (settings.label_smoothing > 0 && loader.options().batch_ops.one_hot)
    throw Refused(
        "label_smoothing smooths the labels, and so does OneHot among the transforms: leave one "
        "of them out");
  if (settings.label_smoothing > 0)
    made = std::move(made).transform("one_hot", OneHot{settings.label_smoothing});
  for (const StageSettings& stage : settings.stages) {
    FrozenStage frozen = python_stage(stage.module, kept, kept_in(kept, stage.function), fields);
    frozen.uses_number = stage.takes_number;
    made = std::move(made).stage(stage.name, std::move(frozen));
  }
  const std::string target = targets.empty() ? "" : targets.front().name;
  const Loss loss = settings.loss.is_none()
                        ? cross_entropy(inputs.front().name, target)
                        : python_loss(kept_in(kept, settings.loss), inputs.front().name, targets);
  BatchSizes sizes = batch_sizes(loader, made);
  made = std::move(made).train(kTrainName,
                               python_module(settings.module, kept, kept_in(kept, settings.forward),
                                             inputs, std::move(sizes)),
                               build_optimizer(settings), loss, settings.training);
  made = settings.schedule.applied(std::move(made), settings.steps, workload);
  const FieldSpec labels = counted_field(*loader.dataset(), target, settings.num_classes);
  for (const std::string& name : settings.metrics.value_or(metrics_for(labels, settings)))
    made = std::move(made).metric(make_metric(name, target, labels.classes));
  for (const auto& [name, function] : settings.own_metrics)
    made = std::move(made).metric(python_metric(name, kept_in(kept, function), targets,
                                                (targets.empty() ? inputs : targets)[0].name));
  return made;
}

}  // namespace slipstream
