#include "slipstream/make_data.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <system_error>

#include "data/scene.h"
#include "data/scene_classes.h"
#include "slipstream/error.h"
#include "slipstream/files.h"
#include "slipstream/image.h"
#include "slipstream/parallel_for.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSamples = 1'000'000;  // six digits keep names in order
constexpr std::int64_t kMinSize = 8;
constexpr std::int64_t kMaxSize = 8192;

constexpr std::uint32_t kFileOperation = 0;
constexpr std::uint32_t kSceneOperation = 1;

template <typename T>
bool all_within(const std::vector<T>& values, T low, T high) {
  return !values.empty() && std::all_of(values.begin(), values.end(),
                                        [&](T value) { return value >= low && value <= high; });
}

void validate(const MakeDataOptions& options) {
  std::string problems;
  const auto require = [&](bool ok, const char* text) {
    if (!ok) problems += std::string("\n  ") + text;
  };
  require(options.samples >= 1 && options.samples <= kMaxSamples, "samples must be 1 to 1000000");
  require(all_within(options.sizes, kMinSize, kMaxSize), "every size must be 8 to 8192");
  require(all_within(options.qualities, 1, 100), "every JPEG quality must be 1 to 100");
  require(options.classes >= 2 && options.classes <= kSceneClasses, "classes must be 2 to 10");
  require(options.grey_share >= 0 && options.grey_share <= 1, "the grey share must be 0 to 1");
  if (!problems.empty()) throw Refused("make-data: these options make no sense:" + problems);
}

struct Folders {
  fs::path images;
  fs::path masks;

  explicit Folders(const fs::path& dir) : images(dir / "images"), masks(dir / "masks") {
    for (const fs::path& folder : {images, masks}) {
      std::error_code error;
      fs::create_directories(folder, error);
      if (error) {
        throw Refused("cannot make the folder '" + folder.string() + "': " + error.message());
      }
      check_writable(folder / "000000");
    }
  }
};

struct Buffers {
  HostArray image;
  HostArray mask;
  HostArray grey;
};

template <typename T>
T pick(RandomStream& random, const std::vector<T>& values) {
  return values[random.below(static_cast<std::uint32_t>(values.size()))];
}

std::string six_digits(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(6 - std::min<std::size_t>(6, digits.size()), '0') + digits;
}

void make_sample(const Folders& folders, const MakeDataOptions& options, std::size_t number,
                 Buffers& buffers) {
  RandomKey key;
  key.seed = options.seed;
  key.sample = number;
  key.operation = kFileOperation;
  RandomStream random(key);
  const std::int64_t size = pick(random, options.sizes);
  const int quality = pick(random, options.qualities);
  const bool is_grey = random.uniform() < options.grey_share;

  key.operation = kSceneOperation;
  draw_scene(key, size, options.classes, buffers.image, buffers.mask);
  if (is_grey) to_grey(buffers.image.view(), buffers.grey);
  const std::string name = six_digits(number);
  write_file_atomically(folders.images / (name + ".jpg"),
                        encode_jpeg((is_grey ? buffers.grey : buffers.image).view(), quality));
  write_file_atomically(folders.masks / (name + ".png"), encode_png(buffers.mask.view()));
}

}  // namespace

std::size_t make_segmentation_data(const fs::path& dir, const MakeDataOptions& options,
                                   const std::function<void(std::size_t done)>& progress) {
  validate(options);
  const Folders folders(dir);
  std::atomic<std::size_t> done = 0;
  parallel_for(options.samples, options.threads, [&]() -> ItemWork {
    return [&, buffers = Buffers()](std::size_t number) mutable {
      if (options.stop && options.stop()) return false;
      make_sample(folders, options, number, buffers);
      const std::size_t now_done = ++done;
      if (progress) progress(now_done);
      return true;
    };
  });
  return done;
}

}  // namespace slipstream
