#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace slipstream {

/// The strings of samples that were read, as bytes that Python packed, until their batch is given:
/// they have any length, and a slab holds their places alone. All functions may be called from
/// several threads at once.
class SampleTexts {
 public:
  struct TextSlot {
    std::uint64_t epoch = 0, number = 0;
    auto operator<=>(const TextSlot&) const = default;
  };

  TextSlot put(std::uint64_t epoch, std::string text);
  /// Those of a batch, whose places are at `places`, one behind the other. It forgets them, and
  /// those of earlier epochs, whose samples came into no batch. Throws Error where one is not
  /// there.
  std::vector<std::string> take(const std::byte* places, std::size_t batch_size);
  void clear();

 private:
  std::mutex changing_;
  std::map<TextSlot, std::string> texts_;
  std::uint64_t number_ = 0;
};

}  // namespace slipstream
