#include "cuda/jpeg_decoder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <tuple>
#include <utility>

#include "cuda/nvjpeg.h"
#include "cuda/teardown.h"
#include "slipstream/core/error.h"

namespace slipstream::cuda {
namespace {

constexpr std::size_t kPages = 2;
/// At least the number of internal buffers in which nvJPEG keeps images on their way to the
/// engines: 14 for the 7 engines of an H200.
constexpr std::size_t kPlaces = 32;

void check(nvjpeg::Status status, const char* call, Where where = Where::here()) {
  if (status == nvjpeg::kSuccess) return;
  throw Error(std::string(where.file) + ":" + std::to_string(where.line) + ": " + call +
              ": nvJPEG " + nvjpeg::to_string(status));
}

void count(void* counter) { ++*static_cast<std::atomic<std::uint64_t>*>(counter); }

int allocate_device(void* counter, void** memory, std::size_t bytes, cudaStream_t) {
  count(counter);
  return cudaMalloc(memory, bytes);
}
int free_device(void*, void* memory, std::size_t, cudaStream_t) { return cudaFree(memory); }
int allocate_pinned(void* counter, void** memory, std::size_t bytes, cudaStream_t) {
  count(counter);
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}
int free_pinned(void*, void* memory, std::size_t, cudaStream_t) { return cudaFreeHost(memory); }

/// nvJPEG's state of one batch, in use until `done` is reached.
struct Page {
  nvjpeg::State state = nullptr;
  cudaEvent_t done = nullptr;
};

/// Files of one kind that nvJPEG supports: those whose sides are between the smallest and the
/// largest for which it said so, because its limits apply to sides. Asking it for each file would
/// take longer than all other work of the host. A file that it refuses nevertheless fails when it
/// is decoded.
struct SupportedKind {
  int subsampling;
  int encoding;
  unsigned components;
  std::int64_t least_height, most_height, least_width, most_width;

  bool is_same_kind(const SupportedKind& other) const {
    return std::tie(subsampling, encoding, components) ==
           std::tie(other.subsampling, other.encoding, other.components);
  }
  bool holds(const JpegImage& image) const {
    return image.height >= least_height && image.height <= most_height &&
           image.width >= least_width && image.width <= most_width;
  }
  void widen(const JpegImage& image) {
    std::tie(least_height, most_height) = std::minmax({least_height, most_height, image.height});
    std::tie(least_width, most_width) = std::minmax({least_width, most_width, image.width});
  }
};

/// One image to decode. Images of one kind are adjacent, the largest first, so that engines working
/// in parallel finish at about the same time.
struct Item {
  int subsampling = 0;
  std::int64_t pixels = 0;
  std::size_t index = 0;

  bool operator<(const Item& other) const {
    return std::tuple(subsampling, -pixels, index) <
           std::tuple(other.subsampling, -other.pixels, other.index);
  }
};

}  // namespace

struct JpegDecoder::Impl {
  explicit Impl(const Options& given);
  ~Impl();

  void create();
  bool try_to_create(nvjpeg::Backend backend);
  void release() noexcept;
  bool may_be_decoded(const JpegImage& image, Item& item);
  bool is_supported() const;
  bool is_taken(const JpegImage& image, int subsampling);
  void choose(std::span<const JpegImage> images);
  void make_room(std::span<const JpegImage> images, cudaStream_t stream);
  nvjpeg::Status submit(std::span<const JpegImage> images, std::span<const Item> items, Page& page,
                        cudaStream_t stream);
  void renew(Page& page);
  void decode_one_by_one(std::span<const JpegImage> images, Page& page, cudaStream_t stream);

  Options options;
  nvjpeg::Library library;
  std::atomic<std::uint64_t> allocations{0};
  nvjpeg::Allocator device_memory{allocate_device, free_device, &allocations};
  nvjpeg::Allocator pinned_memory{allocate_pinned, free_pinned, &allocations};
  bool has_engines = false;
  nvjpeg::Handle handle = nullptr;
  nvjpeg::Stream header = nullptr;
  std::array<Page, kPages> pages;
  std::size_t turn = 0;

  std::vector<SupportedKind> taken;
  bool asks_each = false;                   ///< set when nvJPEG refuses a file that `taken` covers
  std::size_t most_bytes = 0;               ///< largest file for which `pages` have buffers
  std::map<int, std::int64_t> most_pixels;  ///< largest image, by its subsampling
  std::vector<Item> items;
  std::vector<std::size_t> failed;
  std::vector<const unsigned char*> files;
  std::vector<std::size_t> lengths;
  std::vector<nvjpeg::Image> outputs;
};

JpegDecoder::Impl::Impl(const Options& given)
    : options(given),
      library(given.libraries.empty() ? nvjpeg::default_locations() : given.libraries) {
  const DeviceGuard device(options.device);
  check_cuda(cudaFree(nullptr));  // creates the context that nvJPEG then uses
  items.reserve(options.batch_size);
  failed.reserve(options.batch_size);
  const std::size_t most = std::max(options.batch_size, kPlaces);
  files.reserve(most);
  lengths.reserve(most);
  outputs.reserve(most);
  try {
    create();
  } catch (...) {
    release();
    throw;
  }
}

JpegDecoder::Impl::~Impl() {
  const DeviceGuard device(options.device, std::nothrow);
  // nvJPEG's memory must not be freed while the device still decodes.
  ignore_failure(cudaDeviceSynchronize());
  release();
}

void JpegDecoder::Impl::create() {
  has_engines = options.may_use_engines && try_to_create(nvjpeg::kHardware);
  if (!has_engines && !try_to_create(nvjpeg::kGpuHybrid)) {
    throw Error("nvJPEG cannot be used on this GPU; use the wire format plain for images");
  }
  check(library.create_stream(handle, &header), "nvjpegJpegStreamCreate");
  for (Page& page : pages) {
    check(library.create_state(handle, &page.state), "nvjpegJpegStateCreate");
    check_cuda(
        cudaEventCreateWithFlags(&page.done, cudaEventBlockingSync | cudaEventDisableTiming));
  }
}

bool JpegDecoder::Impl::try_to_create(nvjpeg::Backend backend) {
  const nvjpeg::Status status = library.create(backend, &device_memory, &pinned_memory,
                                               nvjpeg::kUpsamplingWithInterpolation, &handle);
  if (status == nvjpeg::kSuccess) return true;
  handle = nullptr;
  // If the GPU has no JPEG engines, the attempt may leave a CUDA error, which the next unrelated
  // call would return.
  static_cast<void>(cudaGetLastError());
  return false;
}

void JpegDecoder::Impl::release() noexcept {
  for (Page& page : pages) {
    if (page.state != nullptr) library.destroy_state(page.state);
    if (page.done != nullptr) ignore_failure(cudaEventDestroy(page.done));
  }
  if (header != nullptr) library.destroy_stream(header);
  if (handle != nullptr) library.destroy(handle);
}

/// Checks that an image can be decoded. The most important check is that the image in the file
/// has the size that the caller expects, because nvJPEG writes as many pixels as the file's header
/// says.
bool JpegDecoder::Impl::may_be_decoded(const JpegImage& image, Item& item) {
  const auto* file = reinterpret_cast<const unsigned char*>(image.file.data());
  unsigned width = 0;
  unsigned height = 0;
  if (library.parse_header(handle, file, image.file.size(), header) != nvjpeg::kSuccess ||
      library.frame_size(header, &width, &height) != nvjpeg::kSuccess ||
      library.subsampling(header, &item.subsampling) != nvjpeg::kSuccess) {
    return false;
  }
  item.pixels = image.height * image.width;
  return width == image.width && height == image.height && is_taken(image, item.subsampling);
}

/// Asks nvJPEG whether it supports the file whose header was parsed last.
bool JpegDecoder::Impl::is_supported() const {
  int is_refused = 1;
  return library.is_supported(handle, header, &is_refused) == nvjpeg::kSuccess && is_refused == 0;
}

/// Like is_supported(), for the file whose header was parsed last, but uses earlier answers for
/// files of the same kind.
bool JpegDecoder::Impl::is_taken(const JpegImage& image, int subsampling) {
  SupportedKind asked{subsampling, 0, 0, image.height, image.height, image.width, image.width};
  if (library.encoding(header, &asked.encoding) != nvjpeg::kSuccess ||
      library.components(header, &asked.components) != nvjpeg::kSuccess) {
    return false;
  }
  const auto known = std::find_if(taken.begin(), taken.end(), [&](const SupportedKind& each) {
    return each.is_same_kind(asked);
  });
  if (!asks_each && known != taken.end() && known->holds(image)) return true;
  if (!is_supported()) return false;
  if (known != taken.end()) {
    known->widen(image);
  } else {
    taken.push_back(asked);
  }
  return true;
}

void JpegDecoder::Impl::choose(std::span<const JpegImage> images) {
  items.clear();
  failed.clear();
  for (std::size_t i = 0; i < images.size(); ++i) {
    Item item{.index = i};
    if (may_be_decoded(images[i], item)) {
      items.push_back(item);
    } else {
      failed.push_back(i);
    }
  }
  std::sort(items.begin(), items.end());
}

/// Each internal buffer of nvJPEG grows when it gets its first larger image, and growing waits for
/// all work of the device. So an image that is larger than all before is decoded once in every
/// buffer, each time to the same pixels, and later ones never wait.
void JpegDecoder::Impl::make_room(std::span<const JpegImage> images, cudaStream_t stream) {
  std::vector<Item> larger;
  for (const Item& item : items) {
    std::int64_t& most = most_pixels[item.subsampling];
    if (item.pixels > most) larger.push_back(item);
    most = std::max(most, item.pixels);
  }
  const auto bytes = [&](const Item& item) { return images[item.index].file.size(); };
  const auto longest = std::ranges::max_element(items, {}, bytes);
  if (longest != items.end() && bytes(*longest) > most_bytes) {
    larger.push_back(*longest);
    most_bytes = bytes(*longest);
  }
  for (const Item& item : larger) {
    const std::vector<Item> everywhere(kPlaces, item);
    for (Page& page : pages) {
      check_cuda(cudaEventSynchronize(page.done));
      const bool is_made = submit(images, everywhere, page, stream) == nvjpeg::kSuccess;
      check_cuda(cudaStreamSynchronize(stream));
      if (!is_made) renew(page);
    }
  }
}

nvjpeg::Status JpegDecoder::Impl::submit(std::span<const JpegImage> images,
                                         std::span<const Item> some, Page& page,
                                         cudaStream_t stream) {
  files.clear();
  lengths.clear();
  outputs.clear();
  for (const Item& item : some) {
    const JpegImage& image = images[item.index];
    files.push_back(reinterpret_cast<const unsigned char*>(image.file.data()));
    lengths.push_back(image.file.size());
    nvjpeg::Image& output = outputs.emplace_back();
    output.channel[0] = reinterpret_cast<unsigned char*>(image.pixels);
    output.pitch[0] = static_cast<std::size_t>(3 * image.width);
  }
  const nvjpeg::Status status = library.begin_batch(
      handle, page.state, static_cast<int>(some.size()), 1, nvjpeg::kOutputRgbi);
  if (status != nvjpeg::kSuccess) return status;
  return library.decode_batch(handle, page.state, files.data(), lengths.data(), outputs.data(),
                              stream);
}

void JpegDecoder::Impl::renew(Page& page) {
  check(library.destroy_state(std::exchange(page.state, nullptr)), "nvjpegJpegStateDestroy");
  check(library.create_state(handle, &page.state), "nvjpegJpegStateCreate");
  // A new state has no buffers yet.
  most_bytes = 0;
  most_pixels.clear();
}

/// Decodes a failed batch image by image. The remains of a failure must not affect the next image:
/// the stream is drained after each, and the state is created again.
void JpegDecoder::Impl::decode_one_by_one(std::span<const JpegImage> images, Page& page,
                                          cudaStream_t stream) {
  check_cuda(cudaStreamSynchronize(stream));
  renew(page);
  for (const Item& item : items) {
    const nvjpeg::Status status = submit(images, {&item, 1}, page, stream);
    check_cuda(cudaStreamSynchronize(stream));
    if (status == nvjpeg::kSuccess) continue;
    failed.push_back(item.index);
    renew(page);
    Item again;
    asks_each = asks_each || !may_be_decoded(images[item.index], again) || !is_supported();
  }
}

JpegDecoder::JpegDecoder(const Options& options) : impl_(std::make_unique<Impl>(options)) {}

JpegDecoder::~JpegDecoder() = default;

bool JpegDecoder::uses_engines() const { return impl_->has_engines; }

std::uint64_t JpegDecoder::allocations() const { return impl_->allocations; }

std::span<const std::size_t> JpegDecoder::decode_async(std::span<const JpegImage> images,
                                                       StreamView stream) {
  Impl& self = *impl_;
  ensure(images.size() <= self.options.batch_size,
         "a call decodes at most JpegDecoder::Options::batch_size images");
  const DeviceGuard device(self.options.device);
  // Two pages: the host prepares one batch while the device decodes the other.
  Page& page = self.pages[self.turn++ % kPages];
  check_cuda(cudaEventSynchronize(page.done));
  self.choose(images);
  if (self.has_engines) self.make_room(images, stream.get());
  if (!self.items.empty() &&
      self.submit(images, self.items, page, stream.get()) != nvjpeg::kSuccess) {
    self.decode_one_by_one(images, page, stream.get());
  }
  check_cuda(cudaEventRecord(page.done, stream.get()));
  std::sort(self.failed.begin(), self.failed.end());
  return self.failed;
}

}  // namespace slipstream::cuda
