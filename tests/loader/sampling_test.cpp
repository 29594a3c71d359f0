#include "slipstream/loader/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "loader/sampler.h"
#include "slipstream/datasets/datasets.h"
#include "support/thrown.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Labels = std::vector<std::int64_t>;
using Weights = std::vector<double>;
using Order = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Sampler balanced_sampler(const Labels& labels, bool shuffle = true, std::uint64_t seed = 1) {
  return {labels.size(), shuffle, seed, Sampling::balanced(labels)};
}

Sampler weighted_sampler(const Weights& weights, bool shuffle = true, std::uint64_t seed = 1) {
  return {weights.size(), shuffle, seed, Sampling::weighted(weights)};
}

/// Returns an epoch's samples, each with the number of its occurrence.
Order list_occurrences(const Sampler& sampler, std::uint32_t epoch) {
  Order order;
  for (std::uint64_t i = 0; i < sampler.size(); ++i) {
    const TakenSample taken = sampler.take(epoch, i);
    order.emplace_back(taken.sample, taken.occurrence);
  }
  return order;
}

std::vector<std::uint64_t> list_draws(const Sampler& sampler, std::uint32_t epoch) {
  std::vector<std::uint64_t> samples;
  for (const auto& [sample, occurrence] : list_occurrences(sampler, epoch))
    samples.push_back(sample);
  return samples;
}

void expect_occurrences_differ(const Sampler& sampler) {
  std::uint64_t largest = 0;
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
    const Order order = list_occurrences(sampler, epoch);
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), order.size()) << "epoch " << epoch;
    for (const auto& [sample, occurrence] : order) largest = std::max(largest, occurrence);
  }
  EXPECT_EQ(largest + 1, sampler.occurrences());
}

/// Returns how often each sample occurs in `epochs` epochs.
Weights count_samples(const Sampler& sampler, std::uint32_t epochs) {
  Weights counts(sampler.size());
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch)
    for (const std::uint64_t sample : list_draws(sampler, epoch)) ++counts[sample];
  return counts;
}

/// Returns chi-squared of counts with respect to the weights, in standard deviations above its
/// mean.
double chi_squared_excess(const Weights& counts, const Weights& weights) {
  double draws = 0;
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    draws += counts[i];
    sum += weights[i];
  }
  double chi_squared = 0;
  double degrees = -1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected = draws * weights[i] / sum;
    if (expected == 0) continue;
    chi_squared += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++degrees;
  }
  return (chi_squared - degrees) / std::sqrt(2 * degrees);
}

/// 3 samples of class 0, 7 of class 2 and 20 of class 5, mixed; classes 1, 3 and 4 are empty.
Labels uneven_labels() {
  Labels labels;
  for (int i = 0; i < 30; ++i) labels.push_back(i % 10 == 4 ? 0 : (i % 4 == 1 ? 2 : 5));
  return labels;
}

TEST(BalancedSampling, EveryRoundHasEveryClassOnceInRandomOrder) {
  Labels labels = uneven_labels();
  labels.push_back(5);  // the last round is incomplete
  const Sampler sampler = balanced_sampler(labels);
  std::set<std::vector<std::int64_t>> rounds;
  for (std::uint32_t epoch = 0; epoch < 6; ++epoch) {
    const auto samples = list_draws(sampler, epoch);
    ASSERT_EQ(samples.size(), 31u);
    for (std::size_t first = 0; first + 3 <= samples.size(); first += 3) {
      std::vector<std::int64_t> round;
      for (std::size_t i = first; i < first + 3; ++i) round.push_back(labels[samples[i]]);
      rounds.insert(round);
      EXPECT_THAT(round, testing::UnorderedElementsAre(0, 2, 5));
    }
  }
  EXPECT_EQ(rounds.size(), 6u);
}

TEST(BalancedSampling, SampleRepeatsOnlyAfterAllOthersOfItsClass) {
  const Labels labels = uneven_labels();
  const Sampler sampler = balanced_sampler(labels);
  std::map<std::int64_t, std::vector<std::uint64_t>> taken;
  for (std::uint32_t epoch = 0; epoch < 21; ++epoch) {
    for (const std::uint64_t sample : list_draws(sampler, epoch))
      taken[labels[sample]].push_back(sample);
  }
  EXPECT_EQ(taken.size(), std::set(labels.begin(), labels.end()).size());
  for (const auto& [label, samples] : taken) {
    const auto members = std::count(labels.begin(), labels.end(), label);
    ASSERT_EQ(samples.size(), 210u);
    std::set<std::vector<std::uint64_t>> passes;
    for (auto first = samples.begin(); samples.end() - first >= members; first += members) {
      const std::vector<std::uint64_t> pass(first, first + members);
      EXPECT_EQ(std::set(pass.begin(), pass.end()).size(), pass.size()) << "class " << label;
      passes.insert(pass);
    }
    EXPECT_GT(passes.size(), members == 3 ? 5u : 9u);
  }
}

TEST(BalancedSampling, EveryPositionIsUniformOverSamples) {
  for (const std::size_t classes : {2u, 3u, 8u, 32u, 33u}) {
    Labels labels;
    for (std::size_t i = 0; i < 3 * classes; ++i)
      labels.push_back(static_cast<std::int64_t>(i % classes));
    const Sampler sampler = balanced_sampler(labels);
    for (const std::uint64_t position : {std::size_t{0}, classes / 2, 3 * classes - 1}) {
      Weights counts(labels.size());
      for (std::uint32_t epoch = 0; epoch < 20000; ++epoch) ++counts[sampler.at(epoch, position)];
      const Weights alike(labels.size(), 1);
      EXPECT_LT(chi_squared_excess(counts, alike), 5)
          << classes << " classes, position " << position;
    }
  }
}

TEST(BalancedSampling, RepeatedSamplesHaveDifferentOccurrences) {
  expect_occurrences_differ(balanced_sampler(uneven_labels()));
  expect_occurrences_differ(balanced_sampler({0, 1, 1, 1, 1, 1, 1, 1}));
  expect_occurrences_differ(balanced_sampler({4, 4, 4}));
  expect_occurrences_differ(balanced_sampler({9}));
}

TEST(BalancedSampling, UnshuffledIsOrderedByClassAndIndex) {
  const Sampler sampler = balanced_sampler({5, 0, 5, 5, 0, 5}, false);
  EXPECT_THAT(list_draws(sampler, 0), ElementsAre(1, 0, 4, 2, 1, 3));
  EXPECT_THAT(list_draws(sampler, 1), ElementsAre(4, 5, 1, 0, 4, 2));
}

TEST(BalancedSampling, EpochsAndSeedsDiffer) {
  const Order order = list_occurrences(balanced_sampler(uneven_labels()), 0);
  EXPECT_EQ(list_occurrences(balanced_sampler(uneven_labels()), 0), order);
  EXPECT_NE(list_occurrences(balanced_sampler(uneven_labels()), 1), order);
  EXPECT_NE(list_occurrences(balanced_sampler(uneven_labels(), true, 2), 0), order);
}

// The values were computed by an independent implementation in Python.
TEST(BalancedSampling, MatchesGoldenValues) {
  const Sampler few = balanced_sampler({0, 0, 0, 0, 0, 0, 7, 7, 3, 0});
  EXPECT_EQ(
      list_occurrences(few, 0),
      (Order{{5, 0}, {6, 0}, {8, 0}, {8, 1}, {7, 0}, {4, 0}, {2, 0}, {8, 2}, {6, 1}, {1, 0}}));
  EXPECT_EQ(
      list_occurrences(few, 1),
      (Order{{3, 0}, {8, 0}, {7, 0}, {6, 0}, {9, 0}, {8, 1}, {7, 1}, {0, 0}, {8, 2}, {8, 3}}));

  Labels labels(100);
  labels[0] = labels[50] = 1;
  for (int i = 0; i < 40; ++i) labels.push_back(2 + i);
  const Order many = list_occurrences(balanced_sampler(labels, true, 5), 3);
  EXPECT_EQ(many[0], (Order::value_type{120, 0}));
  EXPECT_EQ(many[41], (Order::value_type{119, 0}));
  EXPECT_EQ(many[139], (Order::value_type{110, 3}));

  Labels two(100);
  for (std::size_t i = 0; i < 100; i += 20) two[i] = 1;
  const Order members = list_occurrences(balanced_sampler(two, true, 5), 3);
  EXPECT_EQ(members[1], (Order::value_type{62, 0}));
  EXPECT_EQ(members[99], (Order::value_type{60, 9}));

  // The largest number of classes that are shuffled as a whole, and one more.
  Labels each(32);
  std::iota(each.begin(), each.end(), 0);
  EXPECT_EQ(balanced_sampler(each).at(0, 1), 10u);
  each.push_back(32);
  EXPECT_EQ(balanced_sampler(each).at(0, 1), 14u);
}

/// A data set that has nothing but labels.
class LabelsOnly final : public LabeledDataset {
 public:
  LabelsOnly(std::size_t samples, Labels labels) : samples_(samples), labels_(std::move(labels)) {}
  std::size_t size() const override { return samples_; }
  void read(std::size_t, Sample&) const override {}
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t label(std::size_t index) const override { return labels_.at(index); }

 private:
  std::size_t samples_;
  Labels labels_;
  std::vector<std::string> names_;
};

TEST(BalancedSampling, AcceptsLabelsOfADataset) {
  const Labels labels = uneven_labels();
  const Sampler sampler(30, true, 1, Sampling::balanced(LabelsOnly(30, labels)));
  EXPECT_EQ(list_occurrences(sampler, 3), list_occurrences(balanced_sampler(labels), 3));
}

TEST(BalancedSampling, InvalidLabelsAreRefused) {
  EXPECT_THAT(thrown_by([] { Sampling::balanced(Labels{}); }), StartsWith("Refused: no labels"));
  EXPECT_THAT(thrown_by([] {
                Sampling::balanced(Labels{1, 0, -1, 3, -7});
              }),
              AllOf(StartsWith("Refused: the label of sample 2 is -1, and 1 more"),
                    HasSubstr("counted from 0"), HasSubstr("subset")));
  EXPECT_THAT(thrown_by([] { Sampling::balanced(LabelsOnly(std::size_t{1} << 32, {})); }),
              AllOf(StartsWith("Refused: 4294967296 labels"), HasSubstr("at most 2^32 - 1")));
}

Weights uneven_weights() {
  Weights weights;
  for (int i = 0; i < 60; ++i) weights.push_back(i % 7 == 3 ? 0 : 0.25 * (1 + i % 5));
  weights[17] = 20;
  return weights;
}

TEST(WeightedSampling, FrequenciesAreProportionalToWeights) {
  const Weights weights = uneven_weights();
  const Weights counts = count_samples(weighted_sampler(weights), 2000);
  EXPECT_LT(chi_squared_excess(counts, weights), 5);
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(counts[i] == 0, weights[i] == 0) << i;
}

TEST(WeightedSampling, EveryPositionIsProportionalToWeights) {
  const Weights weights = {1, 0, 0.5, 4, 2.5, 1, 0, 1};
  const Sampler sampler = weighted_sampler(weights);
  for (const std::uint64_t position : {0u, 3u, 7u}) {
    Weights counts(weights.size());
    for (std::uint32_t epoch = 0; epoch < 20000; ++epoch) ++counts[sampler.at(epoch, position)];
    EXPECT_LT(chi_squared_excess(counts, weights), 5) << "position " << position;
  }
}

TEST(WeightedSampling, EachEpochDiffersByLessThanTwoFromExactShares) {
  const Weights weights = uneven_weights();
  double sum = 0;
  for (const double weight : weights) sum += weight;
  const Sampler sampler = weighted_sampler(weights);
  for (std::uint32_t epoch = 0; epoch < 100; ++epoch) {
    const auto samples = list_draws(sampler, epoch);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto count = static_cast<double>(std::count(samples.begin(), samples.end(), i));
      EXPECT_LT(std::abs(count - weights[i] / sum * 60), 2) << "epoch " << epoch << " sample " << i;
    }
  }
}

TEST(WeightedSampling, EqualWeightsGiveUnweightedOrder) {
  for (const bool shuffle : {true, false}) {
    const Sampler sampler = weighted_sampler(Weights(1000, 0.3), shuffle);
    EXPECT_EQ(sampler.occurrences(), 1u);
    EXPECT_EQ(list_occurrences(sampler, 2), list_occurrences(Sampler(1000, shuffle, 1), 2));
  }
}

TEST(WeightedSampling, RepeatedSamplesHaveDifferentOccurrences) {
  expect_occurrences_differ(weighted_sampler(uneven_weights()));
  expect_occurrences_differ(weighted_sampler({0, 3, 0}));
  expect_occurrences_differ(weighted_sampler({1}));
}

TEST(WeightedSampling, UnshuffledIsOrderedByIndex) {
  EXPECT_THAT(list_draws(weighted_sampler({0, 3, 0, 1}, false), 5), ElementsAre(1, 1, 1, 3));
}

TEST(WeightedSampling, EpochsAndSeedsDiffer) {
  for (const bool shuffle : {true, false}) {
    const Order order = list_occurrences(weighted_sampler(uneven_weights(), shuffle), 0);
    EXPECT_EQ(list_occurrences(weighted_sampler(uneven_weights(), shuffle), 0), order);
    EXPECT_NE(list_occurrences(weighted_sampler(uneven_weights(), shuffle), 1), order);
    EXPECT_NE(list_occurrences(weighted_sampler(uneven_weights(), shuffle, 2), 0), order);
  }
}

TEST(WeightedSampling, ScaledWeightsGiveSameOrder) {
  const Order order = list_occurrences(weighted_sampler(uneven_weights()), 4);
  for (const int exponent : {-1070, -500, 1000}) {
    Weights weights = uneven_weights();
    for (double& weight : weights) weight = std::ldexp(weight, exponent);
    EXPECT_EQ(list_occurrences(weighted_sampler(weights), 4), order) << "2^" << exponent;
  }
  const Weights largest(100, std::numeric_limits<double>::max());
  EXPECT_EQ(list_occurrences(weighted_sampler(largest), 0),
            list_occurrences(Sampler(100, true, 1), 0));
}

// The values were computed by an independent implementation in Python, with fractions.
TEST(WeightedSampling, MatchesGoldenValues) {
  const Sampler sampler = weighted_sampler({1, 0, 0.5, 4, 2.5, 1, 0, 1, 0, 0.125});
  EXPECT_EQ(
      list_occurrences(sampler, 0),
      (Order{{4, 2}, {3, 1}, {3, 2}, {3, 0}, {3, 3}, {7, 1}, {4, 0}, {0, 0}, {4, 1}, {5, 1}}));
  EXPECT_EQ(
      list_occurrences(sampler, 1),
      (Order{{3, 1}, {3, 3}, {5, 1}, {3, 2}, {4, 2}, {4, 1}, {9, 0}, {0, 0}, {2, 1}, {3, 4}}));
}

TEST(WeightedSampling, InvalidWeightsAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(thrown_by([] { Sampling::weighted({}); }), StartsWith("Refused: no weights"));
  EXPECT_THAT(thrown_by([] {
                Sampling::weighted({0, 0, 0});
              }),
              StartsWith("Refused: all 3 weights are 0"));
  EXPECT_THAT(thrown_by([] { Sampling::weighted(Weights{0}); }),
              StartsWith("Refused: the only weight is 0"));
  for (const auto& [bad, text] :
       {std::pair(-1.0, "-1"), {-1e-9, "-1e-09"}, {nan, "nan"}, {-infinity, "-inf"}}) {
    const Weights weights = {1, 2, bad, 1};
    EXPECT_THAT(thrown_by([&] { Sampling::weighted(weights); }),
                AllOf(StartsWith("Refused: the weight of sample 2 is " + std::string(text) + ":"),
                      HasSubstr("finite and at least 0")));
  }
  EXPECT_THAT(thrown_by([] {
                Sampling::weighted(Weights{-1, -2, 1});
              }),
              HasSubstr("is -1, and 1 more is not valid either: "));
}

TEST(Sampling, SizeReturnsNumberOfLabelsOrWeights) {
  EXPECT_EQ(Sampling().size(), std::nullopt);
  EXPECT_EQ(Sampling::balanced(Labels{1, 2, 2}).size(), 3u);
  EXPECT_EQ(Sampling::weighted({1, 0}).size(), 2u);
  EXPECT_THROW(Sampler(3, true, 1, Sampling::weighted({1, 0})), std::logic_error);
}

}  // namespace
}  // namespace slipstream
