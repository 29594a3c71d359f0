// Measures the CPU implementation of transforms on one thread. Input: one image of 256 x 256 x 3,
// uint8 ("/u8") or float32 ("/f32"), with new random parameters for each call. First every
// operation alone, then chains.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "chains.h"
#include "slipstream/transforms/masking.h"

namespace slipstream {
namespace {

constexpr std::int64_t kSide = 256;

struct Row {
  std::string name;
  std::vector<AnyOp> ops;
  std::vector<DType> dtypes = {DType::uint8, DType::float32};
};

RandomAffine affine() {
  return {.degrees = {-30, 30}, .translate = {0.1, 0.1}, .scale = {0.9, 1.1}};
}

std::vector<AnyOp> list_ops(const std::vector<NamedOp>& chain) {
  std::vector<AnyOp> ops;
  for (const NamedOp& each : chain) ops.push_back(each.op);
  return ops;
}

std::vector<Row> rows() {
  const std::vector<DType> u8 = {DType::uint8};
  return {
      {"center_crop", {CenterCrop{224}}},
      {"random_crop", {RandomCrop{224}}},
      {"horizontal_flip", {RandomHorizontalFlip{1}}},
      {"vertical_flip", {RandomVerticalFlip{1}}},
      {"resize", {Resize{{224, 224}}}},
      {"resize_without_filter", {Resize{{224, 224}, false}}},
      {"random_resized_crop", {RandomResizedCrop{224}}},
      {"rotate", {RandomRotation{{-45, 45}}}},
      {"rotate_bilinear", {RandomRotation{{-45, 45}, Interpolation::bilinear}}},
      {"affine", {affine()}},
      {"color_jitter", {bench::jitter()}},
      {"grayscale", {Grayscale{3}}},
      {"gaussian_blur", {GaussianBlur{7, {0.1, 2.0}}}},
      {"random_erasing", {RandomErasing{1}}},
      {"to_float", {ToDtype{.scale = true}}, u8},
      {"normalize", {bench::normalize()}, {DType::float32}},
      {"classification", list_ops(bench::classification_chain()), u8},
      {"usual",
       {RandomResizedCrop{224}, RandomHorizontalFlip{0.5}, ToDtype{.scale = true},
        bench::normalize()},
       u8},
      {"usual_in_one", list_ops(bench::usual_chain()), u8},
      {"color",
       {RandomResizedCrop{224}, bench::jitter(), ToDtype{.scale = true}, bench::normalize()},
       u8},
  };
}

HostArray noise(DType dtype) {
  HostArray image;
  const MutableArray to = image.reset(dtype, {kSide, kSide, 3});
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < to.shape.elements(); ++i) {
    state = state * 1664525 + 1013904223;
    const auto level = static_cast<std::uint8_t>(state >> 24);
    if (dtype == DType::uint8) to.as<std::uint8_t>()[i] = level;
    if (dtype == DType::float32) to.as<float>()[i] = static_cast<float>(level) / 255;
  }
  return image;
}

void run(benchmark::State& state, const Row& row, DType dtype) {
  const HostArray image = noise(dtype);
  std::vector<FieldSpec> specs = {{"image", FieldKind::image, dtype, {kSide, kSide, 3}}};
  for (const AnyOp& op : row.ops) specs.push_back(op.output(specs.back()));
  std::vector<HostArray> made(row.ops.size());
  Scratch scratch;
  alignas(16) std::array<std::byte, 1024> drawn;
  std::uint64_t sample = 0;
  for (auto _ : state) {
    ConstArray in = image.view();
    ++sample;
    for (std::size_t i = 0; i < row.ops.size(); ++i) {
      row.ops[i].draw({.sample = sample % 1000}, in.shape, drawn.data());
      const MutableArray out = made[i].reset(specs[i + 1].dtype, specs[i + 1].shape);
      row.ops[i].apply(drawn.data(), FieldKind::image, in, out, scratch);
      in = made[i].view();
    }
    benchmark::DoNotOptimize(in.data);
  }
}

}  // namespace
}  // namespace slipstream

int main(int argc, char** argv) {
  using namespace slipstream;
  for (const Row& row : rows()) {
    for (const DType dtype : row.dtypes) {
      const std::string name = row.name + "/" + std::string(to_string(dtype));
      benchmark::RegisterBenchmark(name.c_str(), [row, dtype](benchmark::State& state) {
        run(state, row, dtype);
      })->Unit(benchmark::kMicrosecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
