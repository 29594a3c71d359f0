#pragma once

#include <optional>
#include <string>
#include <utility>

#include "slipstream/cli/options.h"

namespace slipstream {

/// The help of --classes-from.
inline constexpr const char* kClassesFromHelp =
    "A data set, or a text file with one class name per line, that defines the numbers of the "
    "classes";

/// The number that is all of `text`; nothing for anything else.
std::optional<double> number_in(const std::string& text);

/// What "NAME=SIZE" says, a size being bytes or a number of K, M, G or T (powers of 1024), with or
/// without B or iB behind that. Throws Refused for anything else, beginning with `option`, if any.
std::pair<std::string, std::size_t> named_size(const std::string& option, const std::string& text);

/// `text` as a value of the option. Throws Refused for what is none, and for what its check
/// refuses.
OptionValue value_in(const Option& option, const std::string& text);

/// What the option is where it is not given, for --help; "" where that is nothing.
std::string default_text(const Option& option);

/// "whole number", "text", ...
std::string kind_name(const OptionValue& value);

/// "7", "0.001", "adamw".
std::string to_text(const OptionValue& value);

}  // namespace slipstream
