#include "cli/option_text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/number_text.h"
#include "slipstream/core/error.h"

namespace slipstream {
namespace {

OptionValue whole_number_in(const std::string& text) {
  const char* first = text.c_str() + (text.rfind('+', 0) == 0 ? 1 : 0);
  const char* last = text.c_str() + text.size();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(first, last, value);
  if (error == std::errc::result_out_of_range && end == last) throw Refused(text + " is too large");
  if (error != std::errc() || end != last) throw Refused("'" + text + "' is not a whole number");
  return value;
}

/// Parses a size such as "512", "8G", "8GB" or "8GiB" to bytes. Returns nothing if it is invalid.
std::optional<std::size_t> bytes_in(std::string size) {
  constexpr std::string_view kSuffixes = "KMGT";
  const bool is_binary = size.ends_with("iB");
  if (size.ends_with('B')) size.resize(size.size() - (is_binary ? 2 : 1));
  const std::size_t power = size.empty() ? std::string_view::npos : kSuffixes.find(size.back());
  const bool has_suffix = power != std::string_view::npos;
  if (has_suffix) size.pop_back();
  const auto number = number_in(size);
  if (!number || (is_binary && !has_suffix)) return std::nullopt;
  const double bytes = *number * std::pow(1024.0, has_suffix ? power + 1 : 0);
  if (!(bytes >= 1 && bytes < 0x1p62)) return std::nullopt;
  return static_cast<std::size_t>(bytes);
}

}  // namespace

std::optional<double> number_in(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') return std::nullopt;
  return value;
}

std::pair<std::string, std::size_t> named_size(const std::string& option, const std::string& text) {
  const std::string given = option.empty() ? text : option + " " + text;
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    throw Refused(given + ": give a name and a size, for example NAME=8G");
  const std::string size = text.substr(equals + 1);
  if (const auto bytes = bytes_in(size)) return {text.substr(0, equals), *bytes};
  throw Refused(given + ": '" + size +
                "' is not a size: give bytes, or a number of K, M, G or T (powers of 1024), for "
                "example " +
                text.substr(0, equals) + "=8G");
}

OptionValue value_in(const Option& option, const std::string& text) {
  OptionValue value = text;
  if (std::holds_alternative<std::int64_t>(option.value)) value = whole_number_in(text);
  if (std::holds_alternative<double>(option.value)) {
    const auto number = number_in(text);
    if (!number) throw Refused("'" + text + "' is not a valid number");
    if (!std::isfinite(*number)) throw Refused(text + " is not finite");
    value = *number;
  }
  const std::string problem = option.check ? option.check(value) : "";
  if (!problem.empty()) throw Refused(problem);
  return value;
}

std::string default_text(const Option& option) {
  const bool is_none = option.check && !option.check(option.value).empty();
  return is_none ? "" : to_text(option.value);
}

std::string kind_name(const OptionValue& value) {
  constexpr const char* kNames[] = {"flag", "whole number", "number", "text"};
  return kNames[value.index()];
}

std::string to_text(const OptionValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return std::get<bool>(value) ? "true" : "false";
}

}  // namespace slipstream
