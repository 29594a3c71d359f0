#include "report/loader_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/samples.h"

namespace slipstream {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

LoaderReport sample_loader_report() {
  LoaderReport report;
  report.environment = sample_environment();
  report.data = "scenes";
  report.batch_size = 32;
  report.image_size = 64;
  report.rates = {{1, {100, 90, 110, "samples/s", 5}, {{"read", 200, 0.5, 0.25, 1000}}},
                  {2, {198, 190, 205, "samples/s", 5}, {{"read", 400, 1, 0.5, 2000}}}};
  return report;
}

TEST(LoaderReport, TableShowsSpeedupOverFewestWorkers) {
  EXPECT_EQ(
      loader_table(sample_loader_report()),
      "workers  samples/s             speed-up  of perfect  read ms\n"
      "      1  100.0 [90.0, 110.0]   1.00      1.00        2.500\n"
      "      2  198.0 [190.0, 205.0]  1.98      0.99        2.500\n"
      "the largest number of workers that was measured, 2, gave the highest rate: more workers "
      "may be faster (--num-workers)\n"
      "warning: the machine was busy\n");
}

TEST(LoaderReport, EnoughWorkersAreReportedOnlyIfMoreWereMeasured) {
  LoaderReport report = sample_loader_report();
  EXPECT_TRUE(Json::parse(loader_report_json(report)).at("enough_workers").is_null());
  report.rates.push_back({4, {200, 190, 210, "samples/s", 5}, report.rates[0].steps});
  EXPECT_THAT(loader_table(report), HasSubstr("\n2 workers are enough: the rate is at least 97 % "
                                              "of the highest of up to 4 that were measured\n"));
  EXPECT_EQ(Json::parse(loader_report_json(report)).at("enough_workers"), 2);
  report.rates.resize(1);
  EXPECT_THAT(loader_table(report), HasSubstr("\nno other number of workers was measured"));
  EXPECT_TRUE(Json::parse(loader_report_json(report)).at("enough_workers").is_null());
}

TEST(LoaderReport, CacheHitsAreReported) {
  LoaderReport report = sample_loader_report();
  for (LoaderRate& rate : report.rates) {
    rate.cache = CacheCounters{10, 4096, 30, 10, false};
    rate.disk_cache = DiskCacheState{8, 2, 1, 512, "full: max_bytes is 512"};
  }
  report.rates[1].disk_cache = DiskCacheState{};
  const std::string table = loader_table(report);
  EXPECT_THAT(table, HasSubstr("read ms  from cache  from disk cache\n"));
  EXPECT_THAT(table, HasSubstr("2.500    0.75        0.80\n"));
  EXPECT_THAT(table, HasSubstr("2.500    0.75        -\n"));
  const Json rates = Json::parse(loader_report_json(report)).at("rates");
  EXPECT_EQ(rates[0].at("cache").dump(),
            R"({"samples":10,"bytes":4096,"hits":30,"misses":10,"is_filling":false})");
  EXPECT_EQ(
      rates[0].at("disk_cache").dump(),
      R"({"bytes":512,"hits":8,"misses":2,"stored":1,"stop_reason":"full: max_bytes is 512"})");
  EXPECT_TRUE(rates[1].at("disk_cache").at("stop_reason").is_null());
}

TEST(LoaderReport, CachesAreOmittedIfUnused) {
  EXPECT_THAT(loader_table(sample_loader_report()), Not(HasSubstr("cache")));
  const Json rates = Json::parse(loader_report_json(sample_loader_report())).at("rates");
  EXPECT_TRUE(rates[0].at("cache").is_null());
  EXPECT_TRUE(rates[0].at("disk_cache").is_null());
}

}  // namespace
}  // namespace slipstream
