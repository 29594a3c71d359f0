#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace slipstream {

/// Keeps the strings of samples, as bytes that Python packed, from reading until their batch is
/// returned. A slab has a fixed size per sample, so it contains only the positions of strings,
/// which may have any length. All functions may be called by several threads at the same time.
class SampleTexts {
 public:
  struct TextSlot {
    std::uint64_t epoch = 0, number = 0;
    auto operator<=>(const TextSlot&) const = default;
  };

  TextSlot put(std::uint64_t epoch, std::string text);
  /// Removes and returns the strings of a batch. `places`: their positions, one after the other.
  /// Also removes strings of earlier epochs, whose samples are in no batch. Throws Error if one is
  /// missing.
  std::vector<std::string> take(const std::byte* places, std::size_t batch_size);
  void clear();

 private:
  std::mutex changing_;
  std::map<TextSlot, std::string> texts_;
  std::uint64_t number_ = 0;
};

}  // namespace slipstream
