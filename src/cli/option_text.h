#pragma once

#include <string>

#include "slipstream/cli/options.h"

namespace slipstream {

/// Help text of --classes-from.
inline constexpr const char* kClassesFromHelp =
    "A data set, or a text file with one class name per line, that defines the numbers of the "
    "classes";

/// Parses `text` as a value of the option. Throws Refused if it is not one, or if the option's
/// check refuses it.
OptionValue value_in(const Option& option, const std::string& text);

/// Returns the option's default for --help, or "" if it has none.
std::string default_text(const Option& option);

/// Returns the name of the value's type for messages: "whole number", "text", ...
std::string kind_name(const OptionValue& value);

/// Converts the value to text: "7", "0.001", "adamw".
std::string to_text(const OptionValue& value);

}  // namespace slipstream
