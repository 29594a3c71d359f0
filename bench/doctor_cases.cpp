#include "doctor_cases.h"

#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "datasets/with_cost.h"
#include "engine/step_costs.h"
#include "slipstream/datasets/datasets.h"
#include "slipstream/transforms/blur.h"
#include "slipstream/transforms/color.h"
#include "slipstream/transforms/resize.h"
#include "slipstream/transforms/transforms.h"
#include "slipstream/transforms/warp.h"
#include "tools/convert.h"
#include "tools/make_data.h"

namespace slipstream {
namespace {

struct MeansImpl : torch::nn::Module {
  MeansImpl() : head(register_module("head", torch::nn::Linear(3, 10))) {}
  at::Tensor forward(const at::Tensor& images) { return head(images.to(at::kFloat).mean({2, 3})); }
  torch::nn::Linear head;
};
TORCH_MODULE(Means);

std::filesystem::path case_folder(const std::string& name) {
  return std::filesystem::temp_directory_path() / ("slipstream-doctor-cases-" + name);
}

/// A data set of files, which are written once.
std::shared_ptr<const Dataset> open_files(std::int64_t size, double png_share) {
  const auto folder = case_folder((png_share > 0 ? "png-" : "jpeg-") + std::to_string(size));
  if (!std::filesystem::exists(folder)) {
    MakeDataOptions options;
    options.samples = 200;
    options.sizes = {size};
    options.png_share = png_share;
    make_classification_data(folder, options);
  }
  return open_dataset(folder, 10);
}

std::shared_ptr<const Dataset> make_maps(std::int64_t size) {
  const auto folder = case_folder("npy-" + std::to_string(size));
  if (!std::filesystem::exists(folder)) {
    ConvertOptions options;
    options.transforms = {{"resize", Resize{{size, size}}}};
    convert_to_npy(*open_files(size, 0), folder, options);
  }
  return open_dataset(folder, 10);
}

std::shared_ptr<const Dataset> make_dataset(const CaseSettings& made) {
  if (made.jpeg_size > 0) return open_files(made.jpeg_size, 0);
  if (made.png_size > 0) return open_files(made.png_size, 1);
  if (made.npy_size > 0) return make_maps(made.npy_size);
  SyntheticOptions options;
  options.samples = 4096;
  options.size = made.raw_size;
  return synthetic_classification(options);
}

AnyOp make_op(std::string_view work) {
  if (work == "blur") return GaussianBlur{23, {2, 2}};
  if (work == "jitter") return ColorJitter{{0.5, 1.5}, {0.5, 1.5}, {0.5, 1.5}, {-0.1, 0.1}};
  return RandomRotation{{-30, 30}, Interpolation::bilinear};
}

struct StepSlot {
  std::string step;
  SyntheticCost CaseSettings::*part;
  Bottleneck group;
};
const StepSlot kRead{"read", &CaseSettings::read, Bottleneck::read};
const StepSlot kDecode{"decode", &CaseSettings::decode, Bottleneck::decode};
const StepSlot kFirst{"first", &CaseSettings::first, Bottleneck::transforms};
const StepSlot kSecond{"second", &CaseSettings::second, Bottleneck::transforms};
const std::vector<std::pair<StepSlot, StepSlot>> kPairs = {
    {kRead, kFirst}, {kFirst, kDecode}, {kRead, kDecode}};

SyntheticCost sleeping(double seconds) { return {.sleep_s = seconds}; }
SyntheticCost working(double seconds) { return {.cpu_s = seconds}; }

/// Returns the cost of a sample with which two workers take `factor` times the time of a step.
double cost_s(double factor) { return factor * kCaseStepS * 2 / static_cast<double>(kCaseBatch); }

std::string brief(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

Fix without(const StepSlot& place, CaseSettings made) {
  made.*place.part = {};
  return {place.group, made, {place.step}, {}};
}

Case stated(const std::string& name, const std::vector<std::pair<StepSlot, SyntheticCost>>& costs,
            unsigned workers = 2) {
  Case one{name, workers, false, {}};
  for (const auto& [place, cost] : costs) one.now.*place.part = cost;
  for (const auto& [place, cost] : costs) one.fixes.push_back(without(place, one.now));
  return one;
}

void add_stated(std::vector<Case>& cases) {
  for (const StepSlot& place : {kRead, kDecode, kFirst, kSecond})
    for (const bool works : {false, true}) {
      const double factor = works ? 1.5 : 3;
      cases.push_back(
          stated(place.step + (works ? " works " : " waits ") + brief(factor),
                 {{place, works ? working(cost_s(factor)) : sleeping(cost_s(factor))}}));
    }
  for (const auto& [a, b] : kPairs) {
    const std::string names = a.step + " and " + b.step;
    cases.push_back(stated(names, {{a, sleeping(cost_s(2))}, {b, working(cost_s(0.8))}}));
    cases.push_back(
        stated(names + ", as much", {{a, sleeping(cost_s(2))}, {b, sleeping(cost_s(2))}}));
    cases.push_back(stated(a.step + " hides " + b.step,
                           {{a, sleeping(cost_s(0.8))}, {b, working(cost_s(0.8))}}));
  }
  for (const CostVariation variation : {CostVariation::heavy_tail, CostVariation::bursts})
    for (const StepSlot& place : {kRead, kFirst}) {
      SyntheticCost cost = sleeping(cost_s(2.5));
      cost.variation = variation;
      cost.cv = 1.5;
      cost.burst = 16;
      const bool bursts = variation == CostVariation::bursts;
      cases.push_back(stated(place.step + (bursts ? ", bursts" : ", heavy tail"), {{place, cost}}));
    }
  for (const double factor : {1.5, 3.0})
    cases.push_back(
        stated("8 workers, works " + brief(factor), {{kFirst, working(cost_s(factor))}}, 8));
  for (const double copy_s : {0.01, 0.02, 0.04}) {
    Case one{"copy " + brief(1e3 * copy_s) + " ms", 2, false, {}};
    one.now.copy_s = copy_s;
    one.fixes.push_back({Bottleneck::copy, {}, {}, {}});
    cases.push_back(one);
  }
}

void add_contention(std::vector<Case>& cases) {
  for (const unsigned workers : {3U, 6U})
    for (const bool works : {false, true}) {
      Case one{std::string("lock, ") + (works ? "works, " : "waits, ") + std::to_string(workers),
               workers,
               works,
               {}};
      one.now.first = works ? working(0.006) : sleeping(0.006);
      const CaseSettings unlocked = one.now;
      one.now.first.lock = true;
      one.fixes.push_back({Bottleneck::lock_contention, unlocked, {}, "lock"});
      cases.push_back(one);
    }
  for (const std::size_t megabytes : {60, 120}) {
    Case one{"memory, " + std::to_string(megabytes) + " MB", 2, true, {}};
    one.now.first = {.memory_bytes = megabytes << 20};
    one.fixes.push_back(without(kFirst, one.now));
    one.allowed.push_back(Bottleneck::memory_bandwidth);
    cases.push_back(one);
  }
}

void add_fed(std::vector<Case>& cases) {
  const std::vector<Bottleneck> fed = {Bottleneck::device, Bottleneck::none};
  cases.push_back({"nothing", 2, false, {}, {}, fed});
  for (const bool works : {false, true}) {
    Case one{std::string("fed, ") + (works ? "works" : "waits"), 2, false, {}, {}, fed};
    one.now.first = works ? working(cost_s(0.75)) : sleeping(cost_s(0.75));
    cases.push_back(one);
  }
  for (const std::int64_t size : {128, 256}) {
    Case one{"fed, JPEG " + std::to_string(size), 2, true, {}, {}, fed};
    one.now.jpeg_size = size;
    cases.push_back(one);
    one.name = "fed, raw " + std::to_string(size);
    one.now = {};
    one.now.raw_size = size;
    cases.push_back(one);
  }
}

Case real(const std::string& name, unsigned workers, const CaseSettings& now) {
  Case one{name + ", " + std::to_string(workers), workers, true, now};
  CaseSettings there = now;  // as arrays of the same size
  there.npy_size = std::max({now.jpeg_size, now.png_size, now.npy_size});
  if (there.npy_size == 0) there.npy_size = now.raw_size;
  there.jpeg_size = there.png_size = 0;
  there.raw_size = 32;
  if (now.jpeg_size + now.png_size > 0)
    one.fixes.push_back({Bottleneck::decode, there, {"read", "decode"}, {}});
  else if (now.npy_size == 0)
    one.fixes.push_back({Bottleneck::read, there, {"read", "decode"}, {}});
  if (now.work.empty()) return one;
  CaseSettings idle = now;
  idle.work = {};
  idle.shrinks = false;
  one.fixes.push_back({Bottleneck::transforms, idle, {std::string(now.work)}, {}});
  if (now.shrinks) one.fixes.back().steps.emplace_back("shrink");
  return one;
}

void add_real(std::vector<Case>& cases) {
  for (const unsigned workers : {1U, 2U}) {
    for (const std::int64_t size : {768, 1024}) {
      cases.push_back(real("JPEG " + std::to_string(size), workers, {.jpeg_size = size}));
      cases.push_back(real("PNG " + std::to_string(size), workers, {.png_size = size}));
      cases.push_back(real("raw " + std::to_string(size), workers, {.raw_size = size}));
    }
    for (const char* work : {"blur", "jitter", "rotate"}) {
      cases.push_back(real(work, workers, {.npy_size = 256, .work = work}));
      cases.push_back(real(std::string("JPEG 768 and ") + work, workers,
                           {.jpeg_size = 768, .shrinks = true, .work = work}));
    }
    cases.push_back(
        real("PNG 512 and jitter", workers, {.png_size = 512, .shrinks = true, .work = "jitter"}));
    cases.push_back(
        real("raw 768 and blur", workers, {.raw_size = 768, .shrinks = true, .work = "blur"}));
  }
}

/// Adds cases with large batches in pageable memory. The copy waits while the driver copies them to
/// its staging buffer, or the workers cannot fill batches fast enough.
void add_real_copies(std::vector<Case>& cases) {
  constexpr unsigned kMoreWorkers = 15;
  for (const std::int64_t size : {768, 1024}) {
    Case one{"pageable, " + std::to_string(size), 12, true, {}};
    one.now = {.train_s = 5e-4, .is_pinned = false, .size = size, .npy_size = size};
    CaseSettings pinned = one.now;
    pinned.is_pinned = true;
    one.fixes.push_back({Bottleneck::copy, pinned, {}, "pinning"});
    one.fixes.push_back({Bottleneck::read, one.now, {}, {}, kMoreWorkers});
    cases.push_back(one);
  }
}

}  // namespace

std::vector<Case> doctor_cases(bool on_gpu) {
  std::vector<Case> cases;
  add_stated(cases);
  add_contention(cases);
  add_fed(cases);
  add_real(cases);
  if (on_gpu) add_real_copies(cases);
  return cases;
}

Pipeline build_pipeline(const CaseSettings& made) {
  std::shared_ptr<const Dataset> data = make_dataset(made);
  if (!made.read.is_free() || !made.decode.is_free())
    data = with_cost(std::move(data), {.read = made.read, .decode = made.decode});
  Pipeline declared = with_costs(pipeline(std::move(data), {.batch_size = kCaseBatch, .seed = 1}),
                                 {.train_s = made.train_s, .copy_s = made.copy_s});
  const auto add = [&](const std::string& name, const AnyOp& op, const SyntheticCost& cost) {
    declared = std::move(declared).transform(name, cost.is_free() ? op : with_cost(op, cost));
  };
  if (made.shrinks) add("shrink", Resize{{256, 256}, false}, {});
  if (!made.work.empty()) add(std::string(made.work), make_op(made.work), {});
  add("resize", Resize{{made.size, made.size}, false}, {});
  add("first", RandomHorizontalFlip{}, made.first);
  add("second", RandomVerticalFlip{}, made.second);
  return std::move(declared).train("train", Means(), sgd({.lr = 1e-3}),
                                   cross_entropy("image", "label"));
}

}  // namespace slipstream
