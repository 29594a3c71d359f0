#include "core/number_text.h"

#include <array>
#include <charconv>

namespace slipstream {

std::string count_of(std::uint64_t count, std::string_view thing) {
  const std::string_view ending = thing.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + " " + std::string(thing) + std::string(count == 1 ? "" : ending);
}

std::string number_text(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

}  // namespace slipstream
