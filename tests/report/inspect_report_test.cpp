#include "report/inspect_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace slipstream {
namespace {

using Json = nlohmann::ordered_json;

InspectReport sample_inspect_report() {
  InspectReport report;
  report.data = "photos";
  report.found.samples = report.found.inspected = 3;
  FieldSummary& image = report.found.fields.emplace_back();
  image.spec = {"image", FieldKind::image, DType::uint8, {-1, -1, 3}, 0};
  image.stored = {{"PNG", 3}};
  image.transparent = 2;
  FieldSummary& label = report.found.fields.emplace_back();
  label.spec = {"label", FieldKind::label, DType::int64, {}, 3};
  label.stored = {{"int64", 3}};
  label.classes = {{0, 1}, {2, 2}};
  label.class_names = {"cat", "d\u00f6g", "hen"};
  report.found.remarks = {"a remark"};
  return report;
}

TEST(InspectReport, EveryNamedClassIsListedWithSampleCount) {
  const Json json = Json::parse(inspect_report_json(sample_inspect_report()));
  EXPECT_EQ(json.at("fields").at(1).at("classes").dump(),
            "[{\"class\":0,\"name\":\"cat\",\"samples\":1},"
            "{\"class\":1,\"name\":\"d\u00f6g\",\"samples\":0},"
            "{\"class\":2,\"name\":\"hen\",\"samples\":2}]");
}

TEST(InspectReport, UnnamedClassesAreListedOnlyIfSeen) {
  InspectReport report = sample_inspect_report();
  report.found.fields[1].class_names.clear();
  const Json json = Json::parse(inspect_report_json(report));
  EXPECT_EQ(json.at("fields").at(1).at("classes").dump(),
            "[{\"class\":0,\"samples\":1},{\"class\":2,\"samples\":2}]");
}

TEST(InspectReport, RemarksAndTransparentImagesAreIncluded) {
  const Json json = Json::parse(inspect_report_json(sample_inspect_report()));
  EXPECT_EQ(json.at("remarks"), Json({"a remark"}));
  EXPECT_EQ(json.at("fields").at(0).at("transparent"), 2);
  EXPECT_EQ(json.at("fields").at(1).at("transparent"), 0);
}

}  // namespace
}  // namespace slipstream
