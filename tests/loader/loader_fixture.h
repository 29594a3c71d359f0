#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "slipstream/core/error.h"
#include "slipstream/loader/data_loader.h"

namespace slipstream {

/// Gives an incorrect loader time to fail. A correct one passes for any length of this time.
inline void give_time() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

/// Returns `options` with one member changed.
template <typename T>
DataLoaderOptions with(T DataLoaderOptions::*member, std::type_identity_t<T> value,
                       DataLoaderOptions options) {
  options.*member = std::move(value);
  return options;
}

/// Threads in wait() block until open() is called.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() const {
    std::unique_lock lock(mutex_);
    while (!open_) changed_.wait(lock);
  }
  bool is_open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool open_ = false;
};

/// A number that threads increment and wait for.
class WaitableCounter {
 public:
  void raise() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void wait_for(std::size_t count) const {
    std::unique_lock lock(mutex_);
    while (count_ < count) changed_.wait(lock);
  }
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::size_t count_ = 0;
};

inline constexpr std::int64_t kSide = 4;
inline constexpr std::size_t kPixels = kSide * kSide * 3;

inline std::byte sample_pixel(std::uint64_t sample, std::size_t i) {
  return static_cast<std::byte>((sample * 31 + i * 7) & 0xFF);
}

/// Images ("encoded" as eight bytes with the sample's index), and labels, which are the index
/// modulo 10.
class TestSet : public Dataset {
 public:
  explicit TestSet(std::size_t samples) : samples_(samples) {}

  std::size_t size() const override { return samples_; }

  void read(std::size_t index, Sample& out) const override {
    reads.raise();
    if (on_read) on_read(index);
    const std::uint64_t number = index;
    const std::int64_t label = static_cast<std::int64_t>(index % 10);
    const MutableArray image = out.fields[0].array.reset(DType::uint8, {8});
    std::memcpy(image.data, &number, sizeof number);
    out.fields[0].encoded = true;
    std::memcpy(out.fields[1].array.reset(DType::int64, {}).data, &label, sizeof label);
    if (change) change(index, out);
  }

  std::vector<FieldSpec> fields() const override {
    return {{"image", FieldKind::image, DType::uint8, {image_side, image_side, 3}, 0},
            {"label", FieldKind::label, DType::int64, {}, classes}};
  }

  void decode(const FieldSpec&, const DecodeOptions&, Field& field,
              HostArray& spare) const override {
    std::uint64_t number = 0;
    std::memcpy(&number, field.array.view().data, sizeof number);
    if (on_decode) on_decode(number);
    const MutableArray pixels = spare.reset(DType::uint8, {kSide, kSide, 3});
    for (std::size_t i = 0; i < kPixels; ++i) pixels.data[i] = sample_pixel(number, i);
    std::swap(field.array, spare);
  }

  std::string name(std::size_t index) const override {
    return "images/" + std::to_string(index) + ".jpg";
  }

  mutable WaitableCounter reads;
  std::function<void(std::size_t)> on_read;
  std::function<void(std::size_t)> on_decode;
  std::function<void(std::size_t, Sample&)> change;
  std::int64_t image_side = kSide;  ///< the declared side
  std::int64_t classes = 10;

 private:
  std::size_t samples_;
};

/// Adds one random number to every pixel.
struct Brighten {
  static constexpr std::string_view kName = "brighten";
  struct Drawn {
    std::uint32_t by;
  };

  void validate() const {}
  bool touches(FieldKind kind) const { return kind == FieldKind::image; }
  FieldSpec output(const FieldSpec& in) const { return in; }
  bool is_random() const { return true; }
  Drawn draw(const RandomKey& key, const Shape&) const { return {RandomStream(key).below(256)}; }
  void apply(Drawn drawn, FieldKind, ConstArray in, MutableArray out, Scratch&) const {
    if (on_apply) on_apply();
    for (std::size_t i = 0; i < in.bytes(); ++i) {
      out.data[i] = static_cast<std::byte>(std::to_integer<std::uint32_t>(in.data[i]) + drawn.by);
    }
  }

  std::function<void()> on_apply;
};

using Bytes = std::vector<std::byte>;

inline Bytes copy_slab_bytes(const DataLoader& loader, const HostBatch& batch) {
  return {batch.data, batch.data + loader.layout().bytes};
}

/// Returns the whole slabs of the next `batches` batches.
inline std::vector<Bytes> take(DataLoader& loader, std::size_t batches) {
  std::vector<Bytes> taken;
  for (std::size_t i = 0; i < batches; ++i) {
    const HostBatch batch = loader.next();
    taken.push_back(copy_slab_bytes(loader, batch));
    loader.release(batch, nullptr);
  }
  return taken;
}

inline std::vector<NamedOp> no_transforms() { return {}; }
inline std::vector<NamedOp> two_transforms() { return {{"one", Brighten{}}, {"two", Brighten{}}}; }

/// Returns the message of the Error that next() throws, or "".
inline std::string message_of_next(DataLoader& loader) {
  try {
    loader.next();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Returns the message with which the constructor refuses its arguments, or "".
inline std::string refusal(std::shared_ptr<const Dataset> dataset, std::vector<NamedOp> transforms,
                           const DataLoaderOptions& options) {
  try {
    const DataLoader loader(std::move(dataset), std::move(transforms), options);
  } catch (const Refused& refused) {
    return refused.what();
  }
  return "";
}

}  // namespace slipstream
