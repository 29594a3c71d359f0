#include "bindings/sample_texts.h"

#include <cstring>
#include <utility>

#include "slipstream/core/error.h"

namespace slipstream {

SampleTexts::TextSlot SampleTexts::put(std::uint64_t epoch, std::string text) {
  const std::lock_guard lock(changing_);
  const TextSlot place{epoch, number_++};
  texts_.emplace(place, std::move(text));
  return place;
}

std::vector<std::string> SampleTexts::take(const std::byte* places, std::size_t batch_size) {
  std::vector<std::string> all;
  TextSlot place;
  const std::lock_guard lock(changing_);
  for (std::size_t i = 0; i < batch_size; ++i) {
    std::memcpy(&place, places + i * sizeof(place), sizeof(place));
    auto text = texts_.extract(place);
    if (text.empty())
      throw Error("internal error: the strings of this sample were already moved to another batch");
    all.push_back(std::move(text.mapped()));
  }
  texts_.erase(texts_.begin(), texts_.lower_bound({place.epoch, 0}));
  return all;
}

void SampleTexts::clear() {
  const std::lock_guard lock(changing_);
  texts_.clear();
}

}  // namespace slipstream
