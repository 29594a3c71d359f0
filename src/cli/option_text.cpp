#include "cli/option_text.h"

#include <charconv>
#include <cmath>

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

}  // namespace

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
