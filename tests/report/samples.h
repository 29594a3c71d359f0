#pragma once

#include <cmath>

#include "report/report.h"
#include "tools/sheet.h"

namespace slipstream {

inline Environment sample_environment() {
  Environment environment;
  environment.time = "2025-06-01T12:34:56Z";
  environment.slipstream = "0.1.0";
  environment.revision = "0123456789abcdef-dirty";
  environment.compiler = "g++ 12.2.0";
  environment.libtorch = "2.11.0";
  environment.os = "Linux 6.1 x86_64";
  environment.cpu = "A CPU";
  environment.logical_cores = 16;
  environment.memory_bytes = 1 << 30;
  environment.gpu = GpuInfo{"A GPU", "580.1", "13.0", "9.0", 1 << 30};
  environment.warnings = {"the machine was busy"};
  return environment;
}

inline WorkloadInfo sample_workload() {
  return {"segmentation",
          {{"batch-size", std::int64_t{8}},
           {"lr", 0.25},
           {"plan", std::string("pipelined")},
           {"deterministic", true}}};
}

inline RunReport sample_run() {
  RunReport report;
  report.environment = sample_environment();
  report.workload = sample_workload();
  RunResult& result = report.result;
  result.plan = make_plan("serial", {"copy", "decode"}, DeviceKind::cuda, {{.num_workers = 2}}, {});
  result.steps = 3;
  result.wall_s = 1.5;
  result.steps_per_second = {2, 1.5, 2.5, "steps/s", 9};
  result.losses = {2.3f, NAN, 0.1f};
  result.accuracies = {0.25f, 0.5f, 1};
  result.digest = 0xabcdef;
  result.input_wait_share = 0.125;
  result.memory = {4096, 8192, 8192, 1024};
  result.skipped = {3, {{7, "corrupt"}}, {{8, "extraneous bytes"}}};
  result.gains = {
      {"train.fork", {1.5, 1.25, 1.75, "1", 3}, {1.25, 1, 1.5, "1", 3}, "streams", "faster"},
      {"loading", measured_once(2, "1"), {1.75, 1.5, 2, "1", 3}, "", ""}};
  result.jpeg = JpegResult{24, 3, true};
  result.cache = CacheCounters{12, 4096, 20, 12, true};
  result.disk_cache = DiskCacheState{8, 4, 3, 2048, "full"};
  result.counters = {{"decode", 24, 0.5, 0.25, 1 << 20}};
  result.lanes = {{"train", {"copy", "decode"}, 1, 0.5, {{2, 1.25, 1.5}}}};
  report.gpu =
      GpuUseInfo{measured_once(0.5, "share"), std::nullopt, std::nullopt, "no DRAM counter"};
  return report;
}

/// A sheet of two images of 3 x 2 pixels; the second one is marked.
inline Sheet sample_sheet() {
  Sheet sheet{.columns = 2, .cell = 100};
  for (const bool is_marked : {false, true}) {
    Tile& tile = sheet.tiles.emplace_back();
    const MutableArray pixels = tile.pixels.reset(DType::uint8, {3, 2, 3});
    for (std::size_t i = 0; i < pixels.bytes(); ++i) pixels.data[i] = static_cast<std::byte>(i);
    tile.captions = {"\u732b 0.98", "label <b>\n\x1b"};
    tile.is_marked = is_marked;
  }
  return sheet;
}

}  // namespace slipstream
