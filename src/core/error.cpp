#include "slipstream/core/error.h"

#include <algorithm>
#include <cctype>

#include "core/text.h"

namespace slipstream {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// Number of letters that are replaced, added, removed or swapped with their neighbor.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> cost(from.size() + 1,
                                             std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= to.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    for (std::size_t j = 1; j <= to.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost.back().back();
}

/// Number of bytes of the UTF-8 character that `text` begins with, or 0 if it begins with none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  // No character begins with 0xc0 or 0xc1 (only overlong encodings would), nor with more than 0xf4
  // (above U+10FFFF).
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

/// Returns true if the UTF-8 character is a control character other than newline and tab.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  const bool is_c1 = first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return is_c1 || first == 0x7f || (first < 0x20 && first != '\n' && first != '\t');
}

void append_escaped(std::string& text, std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || is_control(character)) {
      append_escaped(result, character);
    } else {
      result += character;
    }
    text.remove_prefix(character.size());
  }
  return result;
}

std::string printable_name(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else
      result += c;
  }
  return result;
}

void refuse(const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  std::string message;
  for (const std::string& problem : problems) message += (message.empty() ? "" : "\n") + problem;
  throw Refused(message);
}

void ensure(bool ok, std::string_view promise, Where where) {
  if (ok) return;
  throw std::logic_error(std::string(where.file) + ":" + std::to_string(where.line) +
                         ": internal error: this invariant does not hold: " + std::string(promise));
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string nearest;
  // A typo changes at most one letter in three. More than that is another word.
  std::size_t nearest_distance = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(lower(name), lower(candidate));
    // A distance of the candidate's own length means that no letter is shared.
    if (distance >= nearest_distance || distance >= candidate.size()) continue;
    nearest = candidate;
    nearest_distance = distance;
  }
  constexpr std::size_t kLeastOfPart = 4;
  std::string part = lower(name);
  part.erase(0, part.find_first_not_of('-'));  // the dashes of a command line option
  if (!nearest.empty() || part.size() < kLeastOfPart) return nearest;
  const auto has_it = [&part](const std::string& candidate) {
    return lower(candidate).find(part) != std::string::npos;
  };
  const auto found = std::find_if(candidates.begin(), candidates.end(), has_it);
  return found == candidates.end() ? nearest : *found;
}

std::string unknown_name(std::string_view kind, std::string_view name,
                         const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  std::string message = "unknown " + std::string(kind) + " '" + printable_name(name) + "'; ";
  if (!nearest.empty()) message += "did you mean '" + printable_name(nearest) + "'? ";
  return message + "known: " + (candidates.empty() ? "none" : printable_name(joined(candidates)));
}

}  // namespace slipstream
