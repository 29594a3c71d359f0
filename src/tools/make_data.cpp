#include "tools/make_data.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <system_error>

#include "core/files.h"
#include "core/parallel_for.h"
#include "slipstream/codecs/image.h"
#include "slipstream/core/error.h"
#include "tools/scene.h"
#include "tools/scene_classes.h"

namespace slipstream {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSamples = 1'000'000;  // with six digits, sorted names are in order
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
  require(options.gray_share >= 0 && options.gray_share <= 1, "the gray share must be 0 to 1");
  require(options.png_share >= 0 && options.png_share <= 1, "the PNG share must be 0 to 1");
  if (!problems.empty()) throw Refused("make-data: these options are invalid:" + problems);
}

fs::path made_folder(fs::path folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Refused("cannot create the folder '" + folder.string() + "': " + error.message());
  }
  check_writable(folder / "000000");
  return folder;
}

/// Throws Refused if `dir` holds entries that are neither hidden nor part of the data set to be
/// made.
void require_own(const fs::path& dir, const char* kind,
                 const std::function<bool(const std::string& name)>& is_own) {
  std::error_code failed;
  for (const fs::directory_entry& each : fs::directory_iterator(dir, failed)) {
    const std::string name = each.path().filename().string();
    if (name.starts_with('.') || is_own(name)) continue;
    throw Refused("'" + dir.string() + "' holds '" + name + "', which is not a part of data for " +
                  kind + ": give a new or empty folder, or remove what is in this one");
  }
}

bool is_class_folder(const std::string& name) {
  return name.starts_with("class") && name.size() == 6 && name[5] >= '0' && name[5] <= '9';
}

struct SceneBuffers {
  HostArray image;
  HostArray mask;
  HostArray gray;
};

template <typename T>
T pick(RandomStream& random, const std::vector<T>& values) {
  return values[random.below(static_cast<std::uint32_t>(values.size()))];
}

std::string six_digits(std::size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(6 - std::min<std::size_t>(6, digits.size()), '0') + digits;
}

/// Properties of an image file.
struct ImageForm {
  std::int64_t size;
  int quality;
  bool is_gray;
  bool is_png;
};

ImageForm draw_form(RandomKey key, const MakeDataOptions& options) {
  key.operation = kFileOperation;
  RandomStream random(key);
  ImageForm form{};
  form.size = pick(random, options.sizes);
  form.quality = pick(random, options.qualities);
  form.is_gray = random.uniform() < options.gray_share;
  form.is_png = random.uniform() < options.png_share;
  return form;
}

/// Writes an image and removes a file with the other extension, which a run with other options may
/// have left.
void write_image(const fs::path& name, const ImageForm& form, SceneBuffers& buffers) {
  if (form.is_gray) to_gray(buffers.image.view(), buffers.gray);
  const ConstArray pixels = (form.is_gray ? buffers.gray : buffers.image).view();
  const auto file = [&](const char* extension) { return fs::path(name).concat(extension); };
  write_own_file(file(form.is_png ? ".png" : ".jpg"),
                 form.is_png ? encode_png(pixels) : encode_jpeg(pixels, form.quality));
  std::error_code ignored;
  fs::remove(file(form.is_png ? ".jpg" : ".png"), ignored);
}

/// Calls write(number, key, buffers) for every sample, with the sample's own key.
template <typename Write>
std::size_t make_all(const MakeDataOptions& options, const Write& write,
                     const std::function<void(std::size_t done)>& progress) {
  std::atomic<std::size_t> done = 0;
  parallel_for(options.samples, options.threads, [&]() -> ItemWork {
    return [&, buffers = SceneBuffers()](std::size_t number) mutable {
      if (options.stop && options.stop()) return false;
      RandomKey key;
      key.seed = options.seed;
      key.sample = number;
      write(number, key, buffers);
      const std::size_t now_done = ++done;
      if (progress) progress(now_done);
      return true;
    };
  });
  return done;
}

}  // namespace

std::size_t make_segmentation_data(const fs::path& dir, const MakeDataOptions& options,
                                   const std::function<void(std::size_t done)>& progress) {
  validate(options);
  require_own(dir, "segmentation",
              [](const std::string& name) { return name == "images" || name == "masks"; });
  const fs::path images = made_folder(dir / "images");
  const fs::path masks = made_folder(dir / "masks");
  const auto write = [&](std::size_t number, RandomKey key, SceneBuffers& buffers) {
    const ImageForm form = draw_form(key, options);
    key.operation = kSceneOperation;
    draw_scene(key, form.size, options.classes, buffers.image, buffers.mask);
    const std::string name = six_digits(number);
    write_image(images / name, form, buffers);
    write_own_file(masks / (name + ".png"), encode_png(buffers.mask.view()));
  };
  return make_all(options, write, progress);
}

std::size_t make_classification_data(const fs::path& dir, const MakeDataOptions& options,
                                     const std::function<void(std::size_t done)>& progress) {
  validate(options);
  require_own(dir, "classification", is_class_folder);
  std::vector<fs::path> folders;
  const auto classes = static_cast<std::size_t>(options.classes);
  for (std::size_t k = 0; k < std::min(classes, options.samples); ++k)
    folders.push_back(made_folder(dir / ("class" + std::to_string(k))));
  const auto write = [&](std::size_t number, RandomKey key, SceneBuffers& buffers) {
    const ImageForm form = draw_form(key, options);
    const std::size_t of_class = number % classes;
    key.operation = kSceneOperation;
    draw_object(key, form.size, static_cast<std::uint8_t>(of_class), buffers.image, buffers.mask);
    write_image(folders[of_class] / six_digits(number), form, buffers);
  };
  return make_all(options, write, progress);
}

}  // namespace slipstream
