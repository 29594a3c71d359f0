// Measures how fast the GPU processes JPEG files: decoding alone, with crop and resize to 224 x
// 224, and with the loader, which reads the files from memory. `cores` is the CPU time of the whole
// process divided by wall time.
//   jpeg_bench [--folder=DIR] [Google Benchmark's options]
// DIR contains JPEG files; without it, 512 pictures of 500 x 375 are generated.
#include <ctime>
#include <filesystem>
#include <string_view>

#include "device_bench.h"
#include "engine/jpeg_unpacker.h"
#include "slipstream/codecs/image.h"
#include "slipstream/transforms/transforms.h"

namespace slipstream::bench {
namespace {

using cuda::check_cuda;
using Bytes = std::vector<std::byte>;

constexpr std::int64_t kSide = 224;
constexpr std::size_t kPictures = 512;

/// Generates a different picture for each seed, with smooth areas, edges and texture: its file has
/// about 100 KB, as photos of this size do.
Bytes picture(std::uint32_t seed) {
  constexpr std::int64_t kHeight = 375;
  constexpr std::int64_t kWidth = 500;
  Bytes levels;
  levels.reserve(kHeight * kWidth * 3);
  std::uint32_t state = seed + 1;
  for (std::int64_t i = 0; i < kHeight * kWidth * 3; ++i) {
    state = state * 1664525 + 1013904223;
    const std::int64_t x = i / 3 % kWidth;
    const std::int64_t y = i / 3 / kWidth;
    const std::int64_t edge = (x / (20 + seed % 37) + y / (15 + seed % 29)) % 2 * 30;
    const std::int64_t slope = x / (3 + seed % 4) + y / (4 + seed % 3);
    levels.push_back(static_cast<std::byte>((slope + edge + (state >> 28) + 9 * seed) % 256));
  }
  return encode_jpeg({levels.data(), DType::uint8, {kHeight, kWidth, 3}}, 90);
}

/// Repeats the given files, which are in memory, with their index as the label.
class Pictures final : public Dataset {
 public:
  explicit Pictures(const std::string& folder) {
    if (folder.empty()) {
      for (std::size_t i = 0; i < kPictures; ++i) files_.push_back(picture(std::uint32_t(i)));
      return;
    }
    HostArray file;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      read_file(entry.path(), file);
      const ConstArray view = file.view();
      if (image_format({view.data, view.bytes()}) != ImageFormat::jpeg) continue;
      files_.emplace_back(view.data, view.data + view.bytes());
    }
    if (files_.empty()) throw Error("no JPEG files in '" + folder + "'");
  }

  std::size_t size() const override { return std::max<std::size_t>(files_.size(), kPictures); }
  std::vector<FieldSpec> fields() const override {
    return {{"image", FieldKind::image, DType::uint8, {-1, -1, 3}, 0},
            {"label", FieldKind::label, DType::int64, {}, 0}};
  }
  void read(std::size_t index, Sample& out) const override {
    const Bytes& file = files_[index % files_.size()];
    const Shape shape = {static_cast<std::int64_t>(file.size())};
    out.fields[0].array.assign({file.data(), DType::uint8, shape});
    out.fields[0].encoded = true;
    *out.fields[1].array.reset(DType::int64, {}).as<std::int64_t>() =
        static_cast<std::int64_t>(index);
  }
  bool decodes_by_default() const override { return true; }

  double mean_bytes() const {
    double bytes = 0;
    for (const Bytes& file : files_) bytes += static_cast<double>(file.size());
    return bytes / static_cast<double>(files_.size());
  }

 private:
  std::vector<Bytes> files_;
};

class DeviceMemory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t) override {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, bytes));
    return memory;
  }
  void do_deallocate(void* memory, std::size_t, std::size_t) override {
    static_cast<void>(cudaFree(memory));
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

/// CPU time of the process and wall time since the object was constructed.
class Cores {
 public:
  double so_far() const { return (now(CLOCK_PROCESS_CPUTIME_ID) - cpu_s_) / (wall() - wall_s_); }

 private:
  static double now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  static double wall() { return now(CLOCK_MONOTONIC); }

  double cpu_s_ = now(CLOCK_PROCESS_CPUTIME_ID);
  double wall_s_ = wall();
};

struct Setting {
  std::shared_ptr<const Pictures> pictures;
  std::size_t batch_size = 256;
  bool engines = true;
  bool resizes = true;   ///< false: decodes only
  unsigned workers = 0;  ///< workers of the loader; 0: four cached slabs instead of a loader
};

/// Objects that a benchmark needs on the device.
struct Fixture {
  explicit Fixture(const Setting& setting)
      : loader(setting.pictures,
               {{"crop", RandomResizedCrop{kSide}}, {"flip", RandomHorizontalFlip{}}},
               make_options(setting, pinned)) {
    for (std::size_t i = 0; i < loader.slabs(); ++i) marks.push_back(lane.make_mark());
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, loader.layout().device_bytes));
    block = static_cast<std::byte*>(memory);
  }
  ~Fixture() { static_cast<void>(cudaFree(block)); }

  static DataLoaderOptions make_options(const Setting& setting, std::pmr::memory_resource& memory) {
    DataLoaderOptions options;
    options.batch_size = setting.batch_size;
    options.prefetch_batches = 4;
    options.held_batches = 3;
    options.num_workers = std::max(1U, setting.workers);
    options.wire = {{"image", Wire::jpeg}};
    options.memory = &memory;
    if (setting.workers == 0) options.cut = HostCut{"collate", 4};
    return options;
  }

  cuda::PinnedMemory pinned;
  cuda::CudaLane lane{"copy", 0, 0};
  std::vector<std::unique_ptr<Mark>> marks;
  DataLoader loader;
  std::byte* block = nullptr;
};

void finish(benchmark::State& state, const Setting& setting, const Cores& cores, bool engines) {
  state.SetItemsProcessed(static_cast<std::int64_t>(setting.batch_size) * state.iterations());
  state.counters["cores"] = cores.so_far();
  state.counters["file_bytes"] = setting.pictures->mean_bytes();
  state.SetLabel(engines ? "engines" : "kernels");
}

void unpack(benchmark::State& state, const Setting& setting) {
  DeviceMemory memory;
  Fixture fixture(setting);
  JpegUnpacker::Options options;
  options.memory = &memory;
  options.may_use_engines = setting.engines;
  JpegUnpacker jpeg(fixture.loader.layout(), std::move(options));
  const auto step = [&] {
    const HostBatch batch = fixture.loader.next();
    cuda::copy_async(fixture.block, batch.data, fixture.loader.layout().copied_bytes,
                     fixture.lane.stream());
    jpeg.unpack_async(batch.data, fixture.block, fixture.lane.stream());
    Mark& used = *fixture.marks[batch.slab];
    fixture.lane.record(used);
    fixture.loader.release(batch, &used);
  };
  for (std::size_t i = 0; i < 2 * fixture.loader.slabs(); ++i) step();
  fixture.lane.synchronize();
  const Cores cores;
  for ([[maybe_unused]] auto iteration : state) step();
  fixture.lane.synchronize();
  finish(state, setting, cores, jpeg.uses_engines());
  state.counters["on_cpu"] = static_cast<double>(jpeg.decoded_by_cpu());
}

/// Alternates between the pixels of two batches, because the decoder waits until the batch before
/// the last is decoded.
void decode(benchmark::State& state, const Setting& setting) {
  DeviceMemory memory;
  Fixture fixture(setting);
  cuda::JpegDecoder decoder(
      {.batch_size = setting.batch_size, .may_use_engines = setting.engines, .libraries = {}});
  const SlabField& field = fixture.loader.layout().field("image");
  std::vector<std::vector<cuda::JpegImage>> batches;
  std::size_t most_bytes = 0;
  for (std::size_t b = 0; b < fixture.loader.slabs(); ++b) {
    const HostBatch batch = fixture.loader.next();
    std::size_t bytes = 0;
    auto& images = batches.emplace_back();
    for (std::size_t i = 0; i < setting.batch_size; ++i) {
      const JpegSlot slot = jpeg_slot(field, batch.data, i);
      if (slot.holds == JpegSlot::Holds::pixels) continue;
      images.push_back({jpeg_payload(field, batch.data, i), slot.height, slot.width, nullptr});
      bytes += static_cast<std::size_t>(3 * slot.height * slot.width);
    }
    most_bytes = std::max(most_bytes, bytes);
  }
  std::byte* const pixels = static_cast<std::byte*>(memory.allocate(2 * most_bytes));
  std::size_t turn = 0;
  const auto step = [&] {
    auto& images = batches[turn % batches.size()];
    std::byte* to = pixels + turn++ % 2 * most_bytes;
    for (cuda::JpegImage& image : images) {
      image.pixels = to;
      to += 3 * image.height * image.width;
    }
    const auto failed = decoder.decode_async(images, fixture.lane.stream());
    if (!failed.empty()) state.SkipWithError("some files could not be decoded");
  };
  for (int i = 0; i < 8; ++i) step();
  fixture.lane.synchronize();
  const Cores cores;
  for ([[maybe_unused]] auto iteration : state) step();
  fixture.lane.synchronize();
  finish(state, setting, cores, decoder.uses_engines());
  memory.deallocate(pixels, 2 * most_bytes);
}

void add(const std::string& name, const Setting& setting) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [setting](benchmark::State& state) {
                                 setting.resizes ? unpack(state, setting) : decode(state, setting);
                               })
      ->UseRealTime()
      ->MinTime(3)
      ->Unit(benchmark::kMillisecond);
}

void register_all(const std::string& folder) {
  const auto pictures = std::make_shared<const Pictures>(folder);
  for (const bool engines : {true, false}) {
    const std::string by = engines ? "/engines/" : "/kernels/";
    for (const std::size_t batch_size : {32, 128, 256}) {
      const std::string of = by + std::to_string(batch_size);
      add("decode" + of, {pictures, batch_size, engines, false, 0});
      add("decode_and_resize" + of, {pictures, batch_size, engines, true, 0});
    }
    for (const unsigned workers : {1U, 2U, 4U}) {
      add("loader" + by + "256/workers:" + std::to_string(workers),
          {pictures, 256, engines, true, workers});
    }
  }
}

}  // namespace
}  // namespace slipstream::bench

int main(int argc, char** argv) {
  constexpr std::string_view kFolder = "--folder=";
  std::string folder;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kFolder)) {
      folder = argument.substr(kFolder.size());
    } else {
      rest.push_back(argv[i]);
    }
  }
  int count = static_cast<int>(rest.size());
  return slipstream::bench::main_on_device(
      count, rest.data(), [&](const auto&) { slipstream::bench::register_all(folder); });
}
