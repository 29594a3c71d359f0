#include "slipstream/cli/options.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "cli/option_text.h"
#include "slipstream/cli/workload.h"
#include "support/temporary_folder.h"
#include "support/thrown.h"
#include "tools/make_data.h"

namespace slipstream {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::StartsWith;

using Value = OptionValue;

OptionList list() {
  return {{"fast", "A flag"},
          {"members", "How many", 3, within(1, 9)},
          {"rate", "How often", 0.5, positive()},
          {"kind", "Which", "", one_of({"round", "square"})}};
}

TEST(OptionsTest, OptionsStartAtTheirDefaults) {
  const Options options(list());
  EXPECT_FALSE(options.flag("fast"));
  EXPECT_EQ(options.integer("members"), 3);
  EXPECT_EQ(options.number("rate"), 0.5);
  EXPECT_EQ(options.text("kind"), "");
  EXPECT_FALSE(options.is_given("members"));
  EXPECT_TRUE(options.has("kind"));
  EXPECT_FALSE(options.has("size"));
}

TEST(OptionsTest, HasValueIsFalseForEmptyAndUndeclaredOptions) {
  Options options(list());
  EXPECT_TRUE(options.has_value("rate"));
  EXPECT_FALSE(options.has_value("kind"));
  EXPECT_FALSE(options.has_value("size"));
  EXPECT_FALSE(Options(OptionList{{"file", "", ""}}).has_value("file"));
  options.give("kind", "round");
  EXPECT_TRUE(options.has_value("kind"));
  EXPECT_THAT(options.unread(), ElementsAre("kind"));
}

TEST(OptionsTest, GivenValuesAreReturned) {
  Options options(list());
  options.give("fast", true);
  options.give("members", 7);
  options.give("rate", 2);
  options.give("kind", "square");
  EXPECT_TRUE(options.flag("fast"));
  EXPECT_EQ(options.integer("members"), 7);
  EXPECT_EQ(options.number("rate"), 2);
  EXPECT_EQ(options.text("kind"), "square");
  EXPECT_TRUE(options.is_given("rate"));
}

TEST(OptionsTest, InForceListsOptionsThatWereReadOrSet) {
  Options options(list());
  options.give("members", 7);
  EXPECT_THAT(options.in_force(), ElementsAre());
  options.number("rate");
  options.set("members", 2);
  options.set("size", 64);
  EXPECT_THAT(options.in_force(), ElementsAre(Pair("members", Value(2)), Pair("rate", Value(0.5)),
                                              Pair("size", Value(64))));
  EXPECT_EQ(options.integer("members"), 2);
  EXPECT_EQ(options.integer("size"), 64);
}

TEST(OptionsTest, UnreadListsGivenOptionsThatWereNotRead) {
  Options options(list());
  options.give("members", 7);
  options.give("rate", 2.5);
  options.number("rate");
  options.set("members", 2);
  EXPECT_THAT(options.unread(), ElementsAre("members"));
}

TEST(OptionsTest, UndeclaredOptionsAreRefusedByName) {
  Options options(list());
  EXPECT_THAT(thrown_by([&] { options.give("membres", 1); }),
              AllOf(StartsWith("Refused: unknown option 'membres'"), HasSubstr("'members'?")));
  EXPECT_THAT(thrown_by([&] { options.text("size"); }),
              AllOf(StartsWith("Refused: "), HasSubstr("'size'"), HasSubstr("does not declare")));
  EXPECT_EQ(thrown_by([&] { options.text("members"); }),
            "Refused: the workload reads the option 'members' as a text, but it is a whole number");
}

TEST(OptionsTest, InvalidValuesAreRefused) {
  Options options(list());
  EXPECT_EQ(thrown_by([&] { options.give("members", 10); }),
            "Refused: --members: 10 is not from 1 to 9");
  EXPECT_EQ(thrown_by([&] { options.give("rate", 0); }),
            "Refused: --rate: 0 is not above 0 and finite");
  EXPECT_THAT(thrown_by([&] { options.give("rate", -0.1234567); }), HasSubstr(": -0.1234567 is"));
  EXPECT_THAT(thrown_by([&] { options.give("kind", "sqare"); }), HasSubstr("'square'?"));
  EXPECT_EQ(thrown_by([&] { options.give("members", "many"); }),
            "Refused: --members takes a whole number, not many");
}

TEST(OptionsTest, AllBadDeclarationsAreReportedAtOnce) {
  const OptionList bad = {
      {"Size", "", 1}, {"a_b", "", 1}, {"x", "", 1}, {"x", "", 2}, {"y", "", true}};
  EXPECT_THAT(thrown_by([&] { Options options(bad); }),
              AllOf(StartsWith("Refused: "), HasSubstr("'Size'"), HasSubstr("'a_b'"),
                    HasSubstr("'x' is declared twice"), HasSubstr("'y': a flag begins as false")));
}

TEST(OptionsTest, ListsAreJoinedAndDefaultsReplaced) {
  const OptionList joined = optimizer_options() + OptionList{{"size", "", 1}};
  EXPECT_EQ(joined.size(), optimizer_options().size() + 1);
  EXPECT_EQ(Options(with_default(joined, "lr", 0.5)).number("lr"), 0.5);
}

/// Returns the options in force after the declaration of `workload`.
std::vector<std::pair<std::string, OptionValue>> in_force(
    const std::string& workload, const std::vector<std::pair<std::string, OptionValue>>& given) {
  Options options = find_options(built_in_workloads(), workload);
  for (const auto& [name, value] : given) options.give(name, value);
  make_pipeline(built_in_workloads(), workload, options);
  return options.in_force();
}

/// Returns a weight of 1 after a step without a gradient, with a learning rate of 0.1.
double weight_after_step(const Options& options) {
  const auto optimizer = make_optimizer(options);
  at::Tensor weight = at::ones({1});
  weight.mutable_grad() = at::zeros({1});
  optimizer->bind({{"weight", weight}});
  optimizer->step({});
  return weight.item<double>();
}

TEST(WorkloadOptionsTest, WeightDecayDefaultsToThatOfTheOptimizer) {
  for (const auto& [optimizer, otherwise] : {std::pair("sgd", 1.0), {"adamw", 1 - 0.1 * 0.01}}) {
    Options options(optimizer_options());
    options.give("optimizer", std::string(optimizer));
    options.give("lr", 0.1);
    EXPECT_NEAR(weight_after_step(options), otherwise, 1e-6) << optimizer;
    EXPECT_THAT(options.in_force(), Not(Contains(Key("weight-decay"))));
    Options declared(with_default(optimizer_options(), "weight-decay", 0.5));
    declared.give("optimizer", std::string(optimizer));
    declared.give("lr", 0.1);
    options.give("weight-decay", 0.5);
    for (const Options& each : {options, declared}) {
      EXPECT_NEAR(weight_after_step(each), 1 - 0.1 * 0.5, 1e-6) << optimizer;
      EXPECT_THAT(each.in_force(), Contains(Pair("weight-decay", Value(0.5))));
    }
  }
  EXPECT_EQ(thrown_by([] { Options(optimizer_options()).give("weight-decay", -0.5); }),
            "Refused: --weight-decay: -0.5 is less than 0");
}

TEST(WorkloadOptionsTest, NumberOfClassesIsTakenFromTheData) {
  const TemporaryFolder folder;
  MakeDataOptions data;
  data.samples = 12;
  data.sizes = {16};
  data.classes = 6;
  make_classification_data(folder.path(), data);
  const auto options =
      in_force("classification", {{"data", folder.path().string()}, {"image-size", 48}});
  EXPECT_THAT(options, Contains(Pair("classes", Value(6))));
  EXPECT_THAT(options, Contains(Pair("image-size", Value(48))));
  EXPECT_THAT(options, Contains(Pair("model", Value(std::string("resnet18")))));
}

TEST(WorkloadOptionsTest, AdamwHasNoMomentum) {
  EXPECT_THAT(in_force("segmentation", {{"image-size", 8}, {"optimizer", "adamw"}}),
              Not(Contains(Key("momentum"))));
  EXPECT_THAT(in_force("segmentation", {{"image-size", 8}}),
              Contains(Pair("momentum", Value(0.0))));
}

TEST(WorkloadOptionsTest, EachModeListsOnlyItsOwnOptions) {
  const auto load = in_force("branches", {{"image-size", 8}, {"mode", "load"}});
  EXPECT_THAT(load, Contains(Pair("load-ms", Value(100.0))));
  EXPECT_THAT(load, Not(Contains(Key("members"))));
  EXPECT_THAT(load, Not(Contains(Key("data"))));
  EXPECT_THAT(in_force("branches", {{"image-size", 8}, {"mode", "ensemble"}}),
              AllOf(Contains(Pair("members", Value(3))), Not(Contains(Key("load-ms")))));
}

}  // namespace
}  // namespace slipstream
