#include "slipstream/loader/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "core/number_text.h"
#include "loader/draw_table.h"
#include "slipstream/core/error.h"
#include "slipstream/datasets/datasets.h"

namespace slipstream {
namespace {

void check_count(std::uint64_t count, const std::string& what) {
  if (count == 0) throw Refused("no " + what + ": give one for each sample");
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    throw Refused(std::to_string(count) + " " + what + ": there may be at most 2^32 - 1");
  }
}

std::string to_text(std::int64_t label) { return std::to_string(label); }
std::string to_text(double weight) { return number_text(weight); }

template <typename Value, typename IsBad>
void refuse_bad(const std::vector<Value>& values, const std::string& what, const IsBad& is_bad,
                const std::string& remedy) {
  const auto first = std::find_if(values.begin(), values.end(), is_bad);
  if (first == values.end()) return;
  const auto more = std::count_if(first + 1, values.end(), is_bad);
  const std::string no_better = more == 1 ? ", and 1 more is not valid either"
                                : more > 1
                                    ? ", and " + std::to_string(more) + " more are not valid either"
                                    : "";
  throw Refused("the " + what + " of sample " + std::to_string(first - values.begin()) + " is " +
                to_text(*first) + no_better + ": " + remedy);
}

}  // namespace

Sampling::Sampling(std::shared_ptr<const DrawTable> table) : table_(std::move(table)) {}

Sampling Sampling::balanced(const std::vector<std::int64_t>& labels) {
  check_count(labels.size(), "labels");
  refuse_bad(
      labels, "label", [](std::int64_t label) { return label < 0; },
      "classes are counted from 0; use a subset to leave out samples without a class");
  return Sampling(std::make_shared<ClassTable>(labels));
}

Sampling Sampling::balanced(const LabeledDataset& dataset) {
  check_count(dataset.size(), "labels");
  std::vector<std::int64_t> labels(dataset.size());
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = dataset.label(i);
  return balanced(labels);
}

Sampling Sampling::weighted(const std::vector<double>& weights) {
  check_count(weights.size(), "weights");
  refuse_bad(
      weights, "weight", [](double weight) { return !std::isfinite(weight) || weight < 0; },
      "weights must be finite and at least 0");
  if (std::all_of(weights.begin(), weights.end(), [](double weight) { return weight == 0; })) {
    throw Refused((weights.size() == 1 ? "the only weight is"
                                       : "all " + format_count(weights.size(), "weight") + " are") +
                  " 0: give a larger weight to the samples that should be used");
  }
  return Sampling(std::make_shared<WeightTable>(weights));
}

std::optional<std::uint64_t> Sampling::size() const {
  if (table_ == nullptr) return std::nullopt;
  return table_->size();
}

}  // namespace slipstream
