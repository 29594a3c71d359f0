#pragma once

#include <string>
#include <string_view>

namespace slipstream {

/// `words` as text or as an attribute's value in HTML and SVG; what is not printable() becomes
/// "\x1b".
std::string escaped(std::string_view words);

/// <name class="css_class">inner</name>; `inner` is markup already. Without a class where it is "".
std::string element(std::string_view name, std::string_view css_class, std::string_view inner);

}  // namespace slipstream
