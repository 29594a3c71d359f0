#include "engine/same_images.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/number_text.h"
#include "engine/device_slab.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {
namespace {

constexpr std::size_t kRangeSamples = 8;  ///< samples that are read from each data set
/// Larger than the factor between normalized images and images from 0 to 1.
constexpr double kRangeFactor = 16;
constexpr int kRangeDigits = 3;

std::vector<FieldSpec> collect_fields(const Dataset& dataset, const std::vector<NamedOp>& chain) {
  std::vector<std::string> problems;
  std::vector<FieldSpec> fields = fields_after(chain, dataset.fields(), problems);
  refuse(problems);
  return fields;
}

bool may_be_same(const Shape& a, const Shape& b) {
  if (a.rank != b.rank) return false;
  for (std::size_t i = 0; i < a.rank; ++i)
    if (a[i] != b[i] && a[i] >= 0 && b[i] >= 0) return false;
  return true;
}

std::string described(const FieldSpec& field) {
  return std::string(to_string(field.dtype)) + " of shape " + to_string(field.shape);
}

std::string if_intended(const EvaluationOptions& options) {
  return options.allowed_by.empty() ? "" : ". If it is intended, " + options.allowed_by;
}

/// Returns a few samples spread over the whole data set, because the first ones may be of one
/// class, or black.
std::shared_ptr<const Dataset> few_samples(const std::shared_ptr<const Dataset>& dataset) {
  const std::uint64_t count = std::min<std::uint64_t>(kRangeSamples, dataset->size());
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = 0; i < count; ++i) indices.push_back(i * dataset->size() / count);
  return subset(dataset, std::move(indices));
}

/// Returns the largest absolute value of each field of float32 images, by name. Empty if a sample
/// cannot be read; the run itself reports that error.
std::map<std::string, double> largest_values(const Pipeline& pipeline) try {
  const std::shared_ptr<const Dataset> samples = few_samples(pipeline.dataset());
  DataLoaderOptions options{pipeline.options(), {.prefetch_batches = 1}};
  options.batch_size = samples->size();
  options.shuffle = false;
  options.sampler = {};
  options.rank = {};
  options.on_bad_sample = OnBadSample::skip;
  DataLoader loader(samples, pipeline.transforms(), options);
  const HostBatch batch = loader.next();
  const at::Tensor memory =
      at::from_blob(const_cast<std::byte*>(batch.data),
                    {static_cast<std::int64_t>(loader.layout().bytes)}, at::kByte);
  std::map<std::string, double> found;
  for (const SlabField& field : loader.layout().fields) {
    if (field.spec.kind != FieldKind::image || field.dtype != DType::float32) continue;
    const at::Tensor values =
        make_view(memory, field, field.offset_bytes, static_cast<std::int64_t>(options.batch_size));
    if (values.dim() == 4 && values.numel() > 0)
      found[field.spec.name] = at::abs(values).max().item<double>();
  }
  loader.release(batch, nullptr);
  return found;
} catch (const Error&) {
  return {};
}

}  // namespace

void require_fields_of_training(const Pipeline& model, const Pipeline& data,
                                const std::vector<NamedOp>& transforms,
                                const EvaluationOptions& options) {
  const std::vector<FieldSpec> evaluated = collect_fields(*data.dataset(), transforms);
  const auto compare = [&](const Pipeline& trained, bool with_shapes, const std::string& allowed) {
    for (const FieldSpec& field : collect_fields(*trained.dataset(), trained.transforms()))
      for (const FieldSpec& other : evaluated) {
        if (field.name != other.name || field.kind != FieldKind::image) continue;
        const bool is_dtype = field.dtype == other.dtype;
        if (is_dtype && (!with_shapes || may_be_same(field.shape, other.shape))) continue;
        throw Refused("evaluation: the field '" + field.name + "' is " + described(other) +
                      ", but the model is trained on " + described(field) +
                      ": both transforms must give the same dtype and shape; a random operation "
                      "that converts must define for_evaluation()" +
                      (is_dtype ? allowed : ""));
      }
  };
  compare(data, true, "");
  compare(model, options.same_images, if_intended(options));
}

void require_range_of_training(const Pipeline& model, const Pipeline& evaluated,
                               const EvaluationOptions& options) {
  const std::map<std::string, double> trained = largest_values(model);
  if (trained.empty()) return;
  for (const auto& [name, value] : largest_values(evaluated)) {
    const auto found = trained.find(name);
    if (found == trained.end()) continue;
    const double least = std::min(value, found->second), most = std::max(value, found->second);
    // Black images and values that are not finite do not allow a conclusion about the scale.
    if (!std::isfinite(most) || least <= 0 || most < kRangeFactor * least) continue;
    throw Refused("evaluation: the absolute values of the images in the field '" + name +
                  "' reach " + rounded_text(value, kRangeDigits) +
                  ", but those in training reach " + rounded_text(found->second, kRangeDigits) +
                  ": use the same to_dtype with scale and the same normalize in both transforms" +
                  if_intended(options));
  }
}

}  // namespace slipstream
