#include "engine/jpeg_unpacker.h"

#include <algorithm>
#include <utility>

#include "core/round_up.h"
#include "cuda/teardown.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kMemoryStep = std::size_t{2} << 20;

const SlabField& jpeg_field(const SlabLayout& layout) {
  const auto is_jpeg = [](const SlabField& field) { return field.wire == Wire::jpeg; };
  const auto found = std::find_if(layout.fields.begin(), layout.fields.end(), is_jpeg);
  ensure(found != layout.fields.end(), "a field of the layout has the wire format jpeg");
  return *found;
}

}  // namespace

JpegUnpacker::JpegUnpacker(const SlabLayout& layout, Options options)
    : field_(jpeg_field(layout)),
      batch_size_(layout.batch_size),
      image_bytes_(field_.spec.shape.elements()),
      options_(std::move(options)),
      decoder_({.device = options_.device,
                .batch_size = batch_size_,
                .may_use_engines = options_.may_use_engines,
                .libraries = {}}) {
  const cuda::DeviceGuard device(options_.device);
  files_.reserve(batch_size_);
  sources_.reserve(batch_size_);
  failed_.reserve(batch_size_);
  try {
    for (Page& page : pages_) {
      cuda::check_cuda(
          cudaEventCreateWithFlags(&page.done, cudaEventBlockingSync | cudaEventDisableTiming));
    }
  } catch (...) {
    release();
    throw;
  }
}

bool JpegUnpacker::fits(const SlabLayout& layout) const {
  const SlabField& other = jpeg_field(layout);
  return layout.batch_size == batch_size_ && other.spec.shape == field_.spec.shape &&
         other.offset_bytes == field_.offset_bytes && other.sample_bytes == field_.sample_bytes &&
         other.device_offset_bytes == field_.device_offset_bytes;
}

JpegUnpacker::~JpegUnpacker() {
  const cuda::DeviceGuard device(options_.device, std::nothrow);
  // The device may still read and write the pages' memory, which `memory` may give to another user
  // at once.
  cuda::ignore_failure(cudaDeviceSynchronize());
  release();
}

void JpegUnpacker::release() noexcept {
  for (Page& page : pages_) {
    for (Memory* memory : {&page.pixels, &page.scratch}) {
      if (memory->data != nullptr) {
        options_.memory->deallocate(memory->data, memory->bytes, kAlignment);
      }
    }
    if (page.done != nullptr) cuda::ignore_failure(cudaEventDestroy(page.done));
  }
}

/// Grows a block to an eighth more than requested, so that later batches of similar size do not
/// grow it again.
void JpegUnpacker::grow(Memory& memory, std::size_t bytes) {
  if (bytes <= memory.bytes) return;
  // `memory` is cleared first: if allocate() throws, it must not refer to the freed block.
  const Memory old = std::exchange(memory, {});
  if (old.data != nullptr) options_.memory->deallocate(old.data, old.bytes, kAlignment);
  const std::size_t wanted = round_up(bytes + bytes / 8, kMemoryStep);
  memory.data = static_cast<std::byte*>(options_.memory->allocate(wanted, kAlignment));
  memory.bytes = wanted;
}

void JpegUnpacker::unpack_async(const std::byte* slab, std::byte* block, cuda::StreamView stream) {
  const cuda::DeviceGuard device(options_.device);
  Page& page = pages_[turn_++ % pages_.size()];
  // Two batches share this page's memory alternately, so the earlier one must have finished.
  cuda::check_cuda(cudaEventSynchronize(page.done));
  std::byte* const to = block + field_.device_offset_bytes;
  try {
    sort_out(slab, to, page, stream);
    decode(page, stream);
    resize(to, page, stream);
  } catch (...) {
    cuda::ignore_failure(cudaEventRecord(page.done, stream.get()));
    throw;
  }
  cuda::check_cuda(cudaEventRecord(page.done, stream.get()));
  // Files that nvJPEG refused are decoded after the event has been recorded, because decoding on
  // the host does not use the page.
  for (const std::size_t position : failed_) decode_on_host(slab, position, to, stream);
  images_ += batch_size_;
  by_cpu_ += batch_size_ - files_.size() + failed_.size();
}

void JpegUnpacker::sort_out(const std::byte* slab, std::byte* to, Page& page,
                            cuda::StreamView stream) {
  files_.clear();
  sources_.clear();
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < batch_size_; ++i) {
    const JpegSlot slot = jpeg_slot(field_, slab, i);
    const auto payload = jpeg_payload(field_, slab, i);
    // A worker has already decoded this image, so its pixels only have to be copied.
    if (slot.holds == JpegSlot::Holds::pixels) {
      cuda::copy_async(to + i * image_bytes_, payload.data(), image_bytes_, stream);
      continue;
    }
    files_.push_back({payload, slot.height, slot.width, nullptr});
    sources_.push_back({.row_bytes = std::int64_t{3} * slot.width,
                        .region = slot.region,
                        .place = i,
                        .flips_across = slot.flips_across,
                        .flips_down = slot.flips_down});
    bytes +=
        round_up(static_cast<std::size_t>(slot.height * sources_.back().row_bytes), kAlignment);
  }
  grow(page.pixels, bytes);
  std::byte* pixels = page.pixels.data;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    files_[i].pixels = pixels;
    sources_[i].pixels = pixels;
    pixels +=
        round_up(static_cast<std::size_t>(files_[i].height * sources_[i].row_bytes), kAlignment);
  }
}

void JpegUnpacker::decode(Page& page, cuda::StreamView stream) {
  failed_.clear();
  if (files_.empty()) return;
  grow(page.scratch,
       cuda::resample_scratch_bytes(sources_, field_.spec.shape[0], field_.spec.shape[1]));
  const auto failed = decoder_.decode_async(files_, stream);
  for (const std::size_t index : failed) failed_.push_back(sources_[index].place);
  const auto has_failed = [&](const cuda::ImageSource& source) {
    return std::binary_search(failed_.begin(), failed_.end(), source.place);
  };
  std::erase_if(sources_, has_failed);
}

void JpegUnpacker::resize(std::byte* to, Page& page, cuda::StreamView stream) {
  cuda::resample_async(sources_, field_.spec.shape[0], field_.spec.shape[1], page.scratch.data, to,
                       stream);
}

void JpegUnpacker::decode_on_host(const std::byte* slab, std::size_t position, std::byte* to,
                                  cuda::StreamView stream) {
  const JpegSlot slot = jpeg_slot(field_, slab, position);
  HostArray image;
  const MutableArray pixels = image.reset(DType::uint8, field_.spec.shape);
  try {
    unpack_jpeg(slot, jpeg_payload(field_, slab, position), options_.decode, pixels);
  } catch (const Error& error) {
    throw Error("sample " + std::to_string(slot.sample) + " (" +
                (options_.name ? printable_name(options_.name(slot.sample)) : "name unknown") +
                "): nvJPEG cannot decode the file, nor can the CPU: " + error.what());
  }
  cuda::check_cuda(cudaMemcpyAsync(to + position * image_bytes_, pixels.data, image_bytes_,
                                   cudaMemcpyHostToDevice, stream.get()));
  // `image` is local and not page-locked; the copy must have finished before it is freed.
  cuda::check_cuda(cudaStreamSynchronize(stream.get()));
}

}  // namespace slipstream
